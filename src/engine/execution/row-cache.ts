/** LRU cache of table rows by index, limited by bytes. */
export class RowCache {
  readonly #limitBytes: number;
  /** Least recently used first. */
  readonly #rows = new Map<number, Uint8Array>();
  #bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(id: number): Uint8Array | undefined {
    const row = this.#rows.get(id);
    if (!row) return undefined;
    this.#rows.delete(id);
    this.#rows.set(id, row);
    return row;
  }

  set(id: number, row: Uint8Array): void {
    const previous = this.#rows.get(id);
    this.#rows.delete(id);
    this.#rows.set(id, row);
    this.#bytes += row.length - (previous?.length ?? 0);
    for (const [oldest, { length }] of this.#rows) {
      if (this.#bytes <= this.#limitBytes) return;
      this.#rows.delete(oldest);
      this.#bytes -= length;
    }
  }
}
