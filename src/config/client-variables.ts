/** How the commands of the command line reach a running server: names of environment variables, and their meanings. */
export const clientSettings = {
  GAMEKEEPER_URL: {
    placeholder: 'url',
    meaning:
      'Management API of the server. Default: the address in the settings of the bundled server, which is `http://127.0.0.1:5001` if they are not changed.',
  },
  GAMEKEEPER_ALLOCATION_URL: {
    placeholder: 'url',
    meaning: 'Allocation API of the server. Default: GAMEKEEPER_URL with ALLOCATION_PORT.',
  },
  GAMEKEEPER_TOKEN: { meaning: 'Bearer token.' },
  GAMEKEEPER_TOKEN_FILE: { placeholder: 'file', meaning: 'File with the bearer token.' },
  GAMEKEEPER_CA: {
    placeholder: 'file',
    meaning:
      'PEM file with the CA certificates that the certificate of the server is checked against. Default: those of Node.',
  },
  GAMEKEEPER_CERT: {
    placeholder: 'file',
    meaning: 'PEM file with a client certificate, for a server with TLS_CLIENT_CA.',
  },
  GAMEKEEPER_KEY: { placeholder: 'file', meaning: 'PEM file with the private key of GAMEKEEPER_CERT.' },
  GAMEKEEPER_NAMESPACE: {
    placeholder: 'name',
    meaning: 'Namespace of the builds and servers that are named. Default: `default`.',
  },
} as const satisfies Readonly<Record<string, { readonly placeholder?: string; readonly meaning: string }>>

export type ClientSettingName = keyof typeof clientSettings
