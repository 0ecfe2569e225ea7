{{/* At most 52 characters, so that Services, whose names add up to 11, stay within the 63 of a DNS label. */}}
{{- define "gamekeeper.name" -}}
{{- if contains "gamekeeper" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else -}}
{{ printf "%s-gamekeeper" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- define "gamekeeper.selector" -}}
app.kubernetes.io/name: gamekeeper
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gamekeeper.labels" -}}
{{ include "gamekeeper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "gamekeeper.systemNamespace" -}}
{{ .Values.systemNamespace | default .Release.Namespace }}
{{- end -}}

{{- define "gamekeeper.tokens" -}}
{{ .Values.auth.secretName | default (printf "%s-tokens" (include "gamekeeper.name" .)) }}
{{- end -}}

{{- define "gamekeeper.policyVersion" -}}
{{- if .Capabilities.APIVersions.Has "policy/v1" }}policy/v1{{ else }}policy/v1beta1{{ end -}}
{{- end -}}

{{/* The prefix of the variables in which pods find a Service, for example GAMEKEEPER_AGENT. */}}
{{- define "gamekeeper.agentVariable" -}}
{{ include "gamekeeper.name" . | upper | replace "-" "_" }}_AGENT
{{- end -}}

{{- define "gamekeeper.account" -}}
- kind: ServiceAccount
  name: {{ include "gamekeeper.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* What hosts do in the namespaces of game servers. */}}
{{- define "gamekeeper.gameRules" -}}
- apiGroups: [mps.gamekeeper.com]
  resources: [gameserverbuilds, gameservers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [mps.gamekeeper.com]
  resources: [gameserverdetails]
  verbs: [get, list, create, patch, delete]
- apiGroups: [mps.gamekeeper.com]
  resources: [gameserverdemands]
  verbs: [get, create, patch, delete]
- apiGroups: [mps.gamekeeper.com]
  resources: [gameserverallocations]
  verbs: [get, list, watch, delete]
- apiGroups: [mps.gamekeeper.com]
  resources: [gameserverbuilds/status, gameservers/status, gameserverallocations/status]
  verbs: [update]
- apiGroups: ['']
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: ['']
  resources: [pods/log]
  verbs: [get]
# What a server uses, in a cluster with metrics-server.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [get]
{{- if .Values.stdin }}
# Older versions of Kubernetes ask for `get`, newer ones for `create` as well.
- apiGroups: ['']
  resources: [pods/attach]
  verbs: [get, create]
{{- end }}
{{- if .Values.commands }}
- apiGroups: ['']
  resources: [pods/exec]
  verbs: [get, create]
{{- end }}
# The SDK configurations, which contain the servers' heartbeat tokens. Hosts do not read them.
- apiGroups: ['']
  resources: [secrets]
  verbs: [create]
# `list` finds out why a pod does not start.
- apiGroups: ['']
  resources: [events]
  verbs: [list, create]
{{- end -}}

{{/* What hosts do in the system namespace. `list` finds leases of hosts with other namespaces. */}}
{{- define "gamekeeper.systemRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update]
# Allocations that are written together.
- apiGroups: [mps.gamekeeper.com]
  resources: [gameserverjournals]
  verbs: [get, create, update]
# The key that encrypts tokens in records, which is restored when it was deleted or edited.
- apiGroups: ['']
  resources: [secrets]
  verbs: [create]
- apiGroups: ['']
  resources: [secrets]
  resourceNames: [gamekeeper-key]
  verbs: [get, list, watch, patch]
- apiGroups: ['']
  resources: [events]
  verbs: [list, create]
{{- end -}}

{{- define "gamekeeper.hostRules" -}}
- apiGroups: ['']
  resources: [pods]
  verbs: [list, patch]
{{- end -}}

{{/* A Role and its binding to the hosts' account. Their names begin with the release's namespace, as two releases may share a namespace. */}}
{{- define "gamekeeper.role" -}}
{{- $name := printf "%s-%s-%s" .root.Release.Namespace (include "gamekeeper.name" .root) .suffix -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  labels: {{- include "gamekeeper.labels" .root | nindent 4 }}
rules: {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  labels: {{- include "gamekeeper.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects: {{- include "gamekeeper.account" .root | nindent 2 }}
{{- end -}}
