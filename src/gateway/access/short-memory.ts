/** Remembers so many answers, each for a while; of too many, the one that nobody asked for longest goes. */
export class ShortMemory<V> {
  readonly #entries = new Map<string, { readonly value: V; readonly until: number }>();
  readonly #capacity: number;
  /** In ms. */
  readonly #life: number;
  readonly #monotonic: () => number;

  constructor(capacity: number, life: number, monotonic: () => number) {
    this.#capacity = capacity;
    this.#life = life;
    this.#monotonic = monotonic;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    if (entry.until <= this.#monotonic()) return undefined;
    // To the end of the order: it was asked for last.
    this.#entries.set(key, entry);
    return entry.value;
  }

  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, { value, until: this.#monotonic() + this.#life });
    if (this.#entries.size <= this.#capacity) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      break;
    }
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}
