/** The environment variables: names, defaults and meanings, as shown in `--help` and docs/reference/environment.md. */

export interface Setting {
  /** If absent, the meaning describes the default. */
  readonly fallback?: string
  readonly meaning: string
}

export const settings = {
  BACKEND: {
    fallback: 'process',
    meaning:
      'Where game servers run: `process` (child processes of this machine), `docker` (the engine of DOCKER_HOST or this machine), `kubernetes` (the cluster of KUBECONFIG or this pod) or `memory` (simulated).',
  },
  HOST: { fallback: '127.0.0.1', meaning: 'Address on which the allocation and management APIs listen.' },
  ALLOCATION_PORT: { fallback: '5000', meaning: 'Port of the allocation API. 0: any free port.' },
  MANAGEMENT_PORT: { fallback: '5001', meaning: 'Port of the management API. 0: any free port.' },
  AGENT_PORT: {
    fallback: '56001',
    meaning: 'Port for heartbeats of game servers. 0: the port stored in DATA_DIR, else any free port.',
  },
  AGENT_HOST: {
    meaning:
      'Address on which the agent listens for heartbeats. Default: 127.0.0.1; with Docker the bridge address, with Kubernetes the InternalIP of this node.',
  },
  AGENT_ADDRESS: {
    meaning: 'host or host:port at which game servers reach the agent, if it differs from AGENT_HOST and AGENT_PORT.',
  },
  DATA_DIR: {
    fallback: '.gamekeeper',
    meaning: 'Directory for builds, servers, sessions and logs. One server per directory.',
  },
  PORT_RANGE: { fallback: '10000-12000', meaning: 'Public ports for game servers.' },
  PUBLIC_ADDRESS: {
    meaning:
      'Address that players connect to. Default: 127.0.0.1; with Docker the host in DOCKER_HOST, with Kubernetes the address of the node.',
  },
  SYSTEM_NAMESPACE: {
    meaning:
      "Kubernetes namespace of the fleet's Lease and key. Default: the alphabetically first of NAMESPACES, else `default`. Set it before you change NAMESPACES; it must not change.",
  },
  NAMESPACES: { meaning: 'Comma-separated Kubernetes namespaces. Default: all.' },
  POD_NAME: {
    meaning:
      'Name of the pod that this server runs in. The pod is labelled while this server leads, for the Services in `examples/kubernetes`.',
  },
  SAMPLE: {
    fallback: 'on',
    meaning: '`on`: creates a sample build in an empty fleet and prints commands to try. `off`: does not.',
  },
  ALLOCATE_TOKENS: { meaning: 'Comma-separated bearer tokens that may allocate. At least 16 characters each.' },
  READ_TOKENS: { meaning: 'Comma-separated bearer tokens that may read builds, servers, events and metrics.' },
  MANAGE_TOKENS: { meaning: 'Comma-separated bearer tokens that may read and change builds and servers.' },
  TLS_CERT: {
    meaning: 'PEM file with the certificate of both APIs, which then use HTTPS. Reloaded when it changes.',
  },
  TLS_KEY: { meaning: 'PEM file with the private key of TLS_CERT.' },
  TLS_CLIENT_CA: {
    meaning: 'PEM file with CA certificates. Clients of both APIs must present a certificate signed by one of them.',
  },
  INSECURE: { fallback: '0', meaning: '`1`: allows a non-loopback HOST without authentication.' },
  WEBHOOK_URL: { meaning: 'URL that receives every event, signed with WEBHOOK_SECRET.' },
  WEBHOOK_SECRET: { meaning: 'Shared secret for webhook signatures. At least 16 characters.' },
  COMPAT: { meaning: '`thundernetes`: the management API uses the formats of Thundernetes.' },
  API_GROUP: {
    fallback: 'mps.gamekeeper.com',
    meaning: 'API group of the resources: in `apiVersion`, and of the CRDs.',
  },
  ALLOWED_HOSTS: {
    meaning:
      'Comma-separated host names accepted in the Host header on loopback without authentication, besides localhost and IP addresses.',
  },
  ALLOWED_ORIGINS: {
    meaning: 'Comma-separated origins, such as `https://console.example`, whose pages may call both APIs (CORS).',
  },
  LOG_LEVEL: { fallback: 'info', meaning: '`debug`, `info`, `warn`, `error` or `silent`.' },
} as const satisfies Readonly<Record<string, Setting>>

export type SettingName = keyof typeof settings

/** Names of earlier versions. Ignoring one in silence could, for example, move the fleet's Lease to another namespace. */
export const renamedSettings: Readonly<Record<string, SettingName>> = {
  HOME_NAMESPACE: 'SYSTEM_NAMESPACE',
  ALLOW_HOSTS: 'ALLOWED_HOSTS',
  ALLOW_ORIGINS: 'ALLOWED_ORIGINS',
}
