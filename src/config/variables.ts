/**
 * The settings of the bundled server by the names of their environment variables: defaults, types and meanings, as shown by
 * `gamekeeper serve --help` and in docs/reference/environment.md.
 */

/**
 * The type of a setting in a configuration file. An array: one of these words. `switch`: a boolean for `on` and `off`. `flag`: a
 * boolean for `1` and `0`. `list`: an array for comma-separated text. `rate`: a number, or `false` for `off`.
 */
export type SettingType = 'text' | 'number' | 'switch' | 'flag' | 'list' | 'rate' | readonly string[]

export interface Setting {
  /** Default: text. */
  readonly type?: SettingType
  /** If absent, the meaning describes the default. */
  readonly fallback?: string
  readonly meaning: string
}

export const settings = {
  BACKEND: {
    type: ['process', 'docker', 'kubernetes', 'memory'],
    fallback: 'process',
    meaning:
      'Where game servers run: `process` (child processes of this machine), `docker` (the engine of DOCKER_HOST or this machine), `kubernetes` (the cluster of KUBECONFIG or this pod) or `memory` (simulated).',
  },
  ISOLATION: {
    type: ['none', 'user', 'systemd'],
    fallback: 'none',
    meaning:
      '`user`: each game server runs as a separate user, out of reach of the files and secrets of this server; needs root. `systemd`: each game server is a service of systemd, which also sees only its own processes and files; needs root and systemd as process 1. `none`: game servers run as the user of this server. Only with BACKEND=process, on Linux.',
  },
  READ_ONLY_PATHS: {
    type: 'list',
    meaning:
      'Comma-separated absolute paths that game servers may read with ISOLATION=systemd, beside system directories and the working directory and program of their build.',
  },
  RUN_AS: {
    meaning:
      'user or user:group that all game servers run as, unless ISOLATION is `user`. Only with BACKEND=process, as root on Linux.',
  },
  HOST: { fallback: '127.0.0.1', meaning: 'Address on which the allocation and management APIs listen.' },
  ALLOCATION_PORT: { type: 'number', fallback: '5000', meaning: 'Port of the allocation API. 0: any free port.' },
  MANAGEMENT_PORT: { type: 'number', fallback: '5001', meaning: 'Port of the management API. 0: any free port.' },
  ALLOCATION_URL: {
    meaning:
      "URL at which callers reach the allocation API if it is not this server's own, for the log line `ready`. The Service's, in `examples/kubernetes`.",
  },
  MANAGEMENT_URL: { meaning: 'The same for the management API.' },
  GRPC_PORT: {
    type: 'number',
    meaning: "Port for gRPC callers of Agones' allocator. 0: any free port. Only with COMPAT=agones. Default: none.",
  },
  HEALTH_PORT: {
    type: 'number',
    meaning:
      'Separate port for `/healthz`, `/readyz` and `/metrics`, served over plain HTTP without tokens, for probes and scrapers. 0: any free port. Default: they are served on MANAGEMENT_PORT only.',
  },
  HEALTH_HOST: { meaning: 'Address of HEALTH_PORT. Default: HOST.' },
  FORWARDING_ADDRESS: {
    meaning:
      "host or host:port at which the other servers of the fleet reach this one: those that do not lead then forward all calls to the one that does. The pod's own address, in `examples/kubernetes`. Default: a server that does not lead refuses calls. Only with BACKEND=kubernetes.",
  },
  FORWARDING_PORT: {
    type: 'number',
    fallback: '5002',
    meaning:
      'Port on which this server receives forwarded calls, with FORWARDING_ADDRESS. It admits only servers of the fleet.',
  },
  AGENT_PORT: {
    type: 'number',
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
  TITLE_ID: { meaning: 'PlayFab title of the games, passed to them as `PF_TITLE_ID`.' },
  REGION: {
    meaning: 'Region, passed to games as `PF_REGION`. Default: none; with Kubernetes the region label of the node.',
  },
  FULLY_QUALIFIED_DOMAIN_NAME: {
    meaning:
      'Public DNS name of a machine of game servers, passed to them as `PF_FQDN`; `{node}` is replaced by the name of the node. Default: none; with Kubernetes the ExternalDNS address of the node.',
  },
  SYSTEM_NAMESPACE: {
    meaning:
      "Kubernetes namespace of the fleet's Lease and key. Default: the alphabetically first of NAMESPACES, else `default`. Set it before you change NAMESPACES; it must not change.",
  },
  NAMESPACES: { type: 'list', meaning: 'Comma-separated Kubernetes namespaces. Default: all.' },
  POD_NAME: {
    meaning:
      'Name of the pod that this server runs in. The pod is labelled while this server leads, for the Services in `examples/kubernetes`.',
  },
  LEASE_MS: {
    type: 'number',
    fallback: '2000',
    meaning:
      'Milliseconds after which another server takes over from a leader that does not renew its Lease, at least 2000. More tolerates machines and API servers that stall. Give all servers of a fleet the same. Only with BACKEND=kubernetes.',
  },
  CORDON_NOTICE_SECONDS: {
    type: 'number',
    meaning:
      'Announces maintenance to game servers on a cordoned Kubernetes node, this many seconds ahead. Default: a cordon announces nothing.',
  },
  PRE_PULL_IMAGES: {
    type: 'switch',
    fallback: 'off',
    meaning:
      '`on`: pulls the images of builds ahead to all Kubernetes nodes on which their servers may run, also to nodes that join later. `off`: nodes pull an image when a server needs it.',
  },
  SAMPLE: {
    type: 'switch',
    fallback: 'on',
    meaning: '`on`: creates a sample build in an empty fleet and prints commands to try. `off`: does not.',
  },
  ALLOCATE_TOKENS: {
    type: 'list',
    meaning:
      'Comma-separated bearer tokens that may allocate. At least 16 characters each; `name:token` names a token in the audit.',
  },
  READ_TOKENS: {
    type: 'list',
    meaning: 'Comma-separated bearer tokens that may read builds, servers, events and metrics.',
  },
  MANAGE_TOKENS: {
    type: 'list',
    meaning: 'Comma-separated bearer tokens that may read and change builds and servers.',
  },
  ALLOCATE_TOKENS_FILE: {
    meaning: 'File with the value of ALLOCATE_TOKENS, or with one token per line. Reloaded when it changes.',
  },
  READ_TOKENS_FILE: { meaning: 'The same for READ_TOKENS.' },
  MANAGE_TOKENS_FILE: { meaning: 'The same for MANAGE_TOKENS.' },
  TLS_CERT: {
    meaning: 'PEM file with the certificate of both APIs, which then use HTTPS. Reloaded when it changes.',
  },
  TLS_KEY: { meaning: 'PEM file with the private key of TLS_CERT.' },
  TLS_CLIENT_CA: {
    meaning: 'PEM file with CA certificates. Clients of both APIs must present a certificate signed by one of them.',
  },
  RATE_LIMIT: {
    type: 'rate',
    fallback: '1000',
    meaning:
      'Requests per second that one client may make to both APIs together, with bursts of twice as many; more get 429. A client is an address (IPv6: a /64), and each valid token of it. `off`: no limit. Heartbeats and probes are never limited.',
  },
  BUDGET_SERVERS: {
    type: 'number',
    meaning:
      "Number of servers that all builds together may have. `spec.budget` of a build says what part of it is its own, and who goes first. Matches never end for it. Default: only each build's `max` counts.",
  },
  BUDGET_CPU: {
    meaning:
      'CPU cores that all servers together may request in their templates, such as `16` or `500m`. Servers that request none count as 0. Default: unlimited.',
  },
  BUDGET_MEMORY: { meaning: 'The same for memory, such as `64Gi`.' },
  AUDIT: {
    type: 'switch',
    fallback: 'on',
    meaning: '`on`: logs who allocated, created, changed, drained or deleted what, and from where. `off`: does not.',
  },
  ACCEPT_STORE_LOSS: {
    type: 'flag',
    fallback: '0',
    meaning:
      '`1`: starts although the store is empty while game servers exist, or has lost records. Matches without a record go on; other servers without one are terminated.',
  },
  INSECURE: { type: 'flag', fallback: '0', meaning: '`1`: allows a non-loopback HOST without authentication.' },
  WEBHOOK_URL: { meaning: 'URL that receives every event, signed with WEBHOOK_SECRET.' },
  WEBHOOK_SECRET: { meaning: 'Shared secret for webhook signatures. At least 16 characters.' },
  WEBHOOK_SECRET_FILE: { meaning: 'File with the value of WEBHOOK_SECRET. Read at the start.' },
  SCALING_WEBHOOKS: {
    type: 'list',
    meaning:
      'Comma-separated origins, such as `https://demand.example`, that this server may call for the scaling policy `webhook` of builds.',
  },
  COMPAT: {
    type: ['thundernetes', 'agones'],
    meaning:
      "`thundernetes`: the APIs use the formats of Thundernetes. `agones`: the allocation API also answers callers of Agones' allocator.",
  },
  SESSION_IDS: {
    type: ['guid', 'any'],
    fallback: 'guid',
    meaning: '`guid`: a sessionID must be a GUID. `any`: it may be any 1 to 128 visible characters.',
  },
  API_GROUP: {
    fallback: 'mps.gamekeeper.com',
    meaning: 'API group of the resources: in `apiVersion`, and of the CRDs.',
  },
  ALLOWED_HOSTS: {
    type: 'list',
    meaning:
      'Comma-separated host names accepted in the Host header on loopback without authentication, besides localhost and IP addresses.',
  },
  ALLOWED_ORIGINS: {
    type: 'list',
    meaning: 'Comma-separated origins, such as `https://console.example`, whose pages may call both APIs (CORS).',
  },
  LOG_LEVEL: {
    type: ['debug', 'info', 'warn', 'error', 'silent'],
    fallback: 'info',
    meaning: '`debug`, `info`, `warn`, `error` or `silent`.',
  },
} as const satisfies Readonly<Record<string, Setting>>

export type SettingName = keyof typeof settings

/** Variables with secrets. Each can instead be read from the file that `<name>_FILE` names. */
export const secretVariables = ['ALLOCATE_TOKENS', 'READ_TOKENS', 'MANAGE_TOKENS', 'WEBHOOK_SECRET'] as const
