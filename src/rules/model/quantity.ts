/** Kubernetes quantities: `500m`, `64Gi`. Pure. */

const factors: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
}

/** Converts `500m` to 0.5 and `256Mi` to 268,435,456. Returns NaN if the text is malformed. */
export function quantityOf(text: string): number {
  const [, amount, suffix = ''] = /^\+?([\d.]+(?:[eE][+-]?\d+)?)([A-Za-z]{0,2})$/.exec(text) ?? []
  const factor = suffix === '' ? 1 : factors[suffix]
  return amount === undefined || factor === undefined ? NaN : Number(amount) * factor
}
