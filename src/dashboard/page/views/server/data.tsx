/** What callers, operators and the game have put on a server: labels, annotations, counters, lists. */
import type { ComponentChildren } from 'preact'
import type { GameServer } from '../../../../rules/model/wire.js'

export function ServerData({ of: { metadata, status } }: { readonly of: GameServer }) {
  const { labels = {}, annotations = {} } = metadata
  const { counters = {}, lists = {} } = status
  const facts: readonly Fact[] = [
    ...Object.entries(counters).map(([name, { count, capacity }]) =>
      fact(name, `${number(count)} of ${number(capacity)}`),
    ),
    ...Object.entries(lists).map(([name, { values, capacity }]) =>
      fact(
        name,
        <>
          {number(values.length)} of {number(capacity)}
          {values.map((value) => (
            <span key={value} class="tag value">
              {value}
            </span>
          ))}
        </>,
      ),
    ),
    ...[...Object.entries(labels), ...Object.entries(annotations)].map(([name, value]) =>
      fact(name, <code>{value}</code>),
    ),
  ]
  if (facts.length === 0) return null
  return (
    <section class="panel" aria-label="Data">
      <dl class="facts-list">
        {facts.map(({ name, value }, index) => (
          <div key={`${index} ${name}`}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

interface Fact {
  readonly name: string
  readonly value: ComponentChildren
}

function fact(name: string, value: ComponentChildren): Fact {
  return { name, value }
}

function number(value: number): string {
  return value.toLocaleString('en')
}
