const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** An id as OpenAI's wire writes them. */
export function newCallId(): string {
  // 62 letters, and the 8 values that would favour the first of them left out.
  const values: number[] = [];
  while (values.length < 24) {
    values.push(...crypto.getRandomValues(new Uint8Array(32)).filter((value) => value < 248));
  }
  return `call_${values
    .slice(0, 24)
    .map((value) => letters.charAt(value % 62))
    .join('')}`;
}

/** Ids for templates that take only nine letters and digits: others are numbered as they appear. */
export class ShortIds {
  readonly #known = new Map<string, string>();

  of(id: string): string {
    if (/^[A-Za-z0-9]{9}$/.test(id)) return id;
    const known = this.#known.get(id);
    if (known) return known;
    const short = `call${String(this.#known.size).padStart(5, '0')}`;
    this.#known.set(id, short);
    return short;
  }
}
