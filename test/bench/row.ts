/** Rows of benchmark results, printed as a table or as JSON. */
export interface Row {
  readonly name: string
  readonly value: number
  readonly unit: string
  /** The baseline, from the same run and in the same unit. `null` if there is none. */
  readonly baseline: number | null
  /** `value / baseline`, or `null` if there is no baseline. */
  readonly ratio: number | null
  readonly goal: string
  readonly met: boolean
  /** Printed in the table only. */
  readonly note: string
}

export interface Bench {
  /** Names of the rows that the benchmark returns. */
  readonly names: readonly string[]
  /**
   * With `quick`, only checks that the benchmark works; the figures are meaningless. `servers` is the number of servers of the
   * `allocate-cluster` rows.
   */
  run(quick: boolean, servers: number): Promise<readonly Row[]>
}

type Measured = Pick<Row, 'name' | 'unit' | 'value' | 'note'> & { readonly baseline?: number }

export function atLeast(least: number, row: Measured): Row {
  return { ...withRatio(row), goal: `value ≥ ${least}`, met: row.value >= least }
}

export function atMost(most: number, row: Measured): Row {
  return { ...withRatio(row), goal: `value ≤ ${most}`, met: row.value <= most }
}

export function ratioAtLeast(least: number, row: Measured & { readonly baseline: number }): Row {
  return { ...withRatio(row), goal: `ratio ≥ ${least}`, met: row.value / row.baseline >= least }
}

export function ratioAtMost(most: number, row: Measured & { readonly baseline: number }): Row {
  return { ...withRatio(row), goal: `ratio ≤ ${most}`, met: row.value / row.baseline <= most }
}

function withRatio({ name, value, unit, baseline, note }: Measured): Omit<Row, 'goal' | 'met'> {
  return {
    name,
    value: rounded(value),
    unit,
    baseline: baseline === undefined ? null : rounded(baseline),
    ratio: baseline === undefined ? null : rounded(value / baseline),
    note,
  }
}

/** Rounds to three digits, since measurements on a shared machine are no more accurate than that. */
function rounded(value: number): number {
  return value >= 1_000 ? Math.round(value) : Number(value.toPrecision(3))
}

export function asJson(rows: readonly Row[]): string {
  return JSON.stringify(
    rows.map(({ note: _, ...row }) => row),
    undefined,
    2,
  )
}

export function asTable(rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.name,
    format(row.value),
    row.unit,
    row.baseline === null ? '–' : format(row.baseline),
    row.ratio === null ? '–' : format(row.ratio),
    row.goal,
    row.met ? 'met' : 'MISSED',
    row.note,
  ])
  const head = ['row', 'value', 'unit', 'baseline', 'ratio', 'goal', '', 'note']
  const widths = head.map((title, column) => Math.max(title.length, ...cells.map((row) => (row[column] ?? '').length)))
  return [head, ...cells]
    .map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
    .map((line) => line.trimEnd())
    .join('\n')
}

function format(value: number): string {
  return value.toLocaleString('en', { maximumSignificantDigits: value >= 1_000 ? 6 : 3 })
}
