/** `1 server`, `2 servers`: how messages count. `many` is needed for `matches` and the like. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
