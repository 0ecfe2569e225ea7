/** Converts port pairs to and from the text stored in labels and annotations, such as `7777:10000,7778:10001`. Pure. */
import { isPort } from '../../src/rules/model/ports.js'
import type { PortPair } from '../../src/rules/model/resources.js'

export function formatPortPairs(ports: readonly PortPair[]): string {
  return ports.map((port) => `${port.container}:${port.public}`).join(',')
}

/** Returns undefined if the text is malformed. */
export function parsePortPairs(text: unknown): readonly PortPair[] | undefined {
  if (typeof text !== 'string') return undefined
  const pairs = text === '' ? [] : text.split(',').map((pair) => pair.split(':').map(Number))
  const ports = pairs.map(([container, number]) => ({ container: container ?? 0, public: number ?? 0 }))
  return ports.every((port) => isPort(port.container) && isPort(port.public)) ? ports : undefined
}
