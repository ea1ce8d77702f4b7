const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** Creates a random tool call id in OpenAI's format. */
export function createCallId(): string {
  // Discard values from 248: 256 is not a multiple of 62, and they would make the first letters more frequent.
  const values: number[] = [];
  while (values.length < 24) {
    values.push(...crypto.getRandomValues(new Uint8Array(32)).filter((value) => value < 248));
  }
  return `call_${values
    .slice(0, 24)
    .map((value) => letters.charAt(value % 62))
    .join('')}`;
}

/** Maps call ids to nine letters and digits, the only ids that some templates accept. Other ids are numbered. */
export class ShortCallIds {
  readonly #shortIds = new Map<string, string>();

  shorten(id: string): string {
    if (/^[A-Za-z0-9]{9}$/.test(id)) return id;
    const shortIds = this.#shortIds.get(id);
    if (shortIds) return shortIds;
    const short = `call${String(this.#shortIds.size).padStart(5, '0')}`;
    this.#shortIds.set(id, short);
    return short;
  }
}
