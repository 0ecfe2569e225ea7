/** Callers of gRPC services, by @grpc/grpc-js and the .proto files of this folder. */
import { fileURLToPath } from 'node:url'
import {
  type ChannelCredentials,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'

/** `name`: with its package. */
export function serviceIn(file: string, name: string): ServiceClientConstructor {
  const path = fileURLToPath(new URL(file, import.meta.url))
  const loaded = loadPackageDefinition(loadSync(path, { keepCase: true, longs: String, enums: String, defaults: true }))
  let found: unknown = loaded
  for (const part of name.split('.')) found = Object(found)[part]
  return found as ServiceClientConstructor
}

type Answer = Readonly<Record<string, unknown>>

interface CallOptions {
  readonly metadata?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
  readonly method?: string
}

export interface GrpcClient {
  /** Rejects with an error that has the `code` of gRPC. */
  readonly call: (request: object, options?: CallOptions) => Promise<Answer>
  readonly close: () => void
}

export function grpcClient(
  Service: ServiceClientConstructor,
  url: string,
  secured: ChannelCredentials = credentials.createInsecure(),
): GrpcClient {
  // Newer versions of Node refuse an address as the name of a TLS server.
  const client = new Service(new URL(url).host, secured, { 'grpc.ssl_target_name_override': 'localhost' })
  return {
    close: () => client.close(),
    call: (request, { metadata = {}, timeoutMs, method = 'Allocate' } = {}) =>
      new Promise((resolve, reject) => {
        const sent = new Metadata()
        for (const [name, value] of Object.entries(metadata)) sent.set(name, value)
        const options = timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs }
        const answered = (error: ServiceError | null, answer: Answer) => (error ? reject(error) : resolve(answer))
        Object(client)[method](request, sent, options, answered)
      }),
  }
}
