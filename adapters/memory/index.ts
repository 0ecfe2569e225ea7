/** `gamekeeper/memory`: the backend for unit tests. */
export { memoryBackend, type MemoryBackend } from './memory-backend.js'
export type { MemoryServer } from './scripted-server.js'
export type { MemoryBackendOptions, ServerScript } from './options.js'
