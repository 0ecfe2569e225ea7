/** Numbers on the command line. */
import { InvalidArgumentError } from 'commander'

export function wholeNumber(from: number, to: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= from && value <= to))
      throw new InvalidArgumentError(`It must be a whole number from ${from} to ${to}.`)
    return value
  }
}

export function numberBetween(from: number, to: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,9}(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= from && value <= to)) throw new InvalidArgumentError(`It must be a number from ${from} to ${to}.`)
    return value
  }
}
