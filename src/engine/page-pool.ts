/** Pages of the KV cache: which are free, and which a sequence holds. Pages are numbers; the memory is elsewhere. */
export class PagePool {
  readonly total: number;
  readonly #free: number[];

  constructor(total: number) {
    this.total = total;
    // From the end, so that the first taken is page 0.
    this.#free = Array.from({ length: total }, (_, index) => total - 1 - index);
  }

  get free(): number {
    return this.#free.length;
  }

  /** `count` pages, or undefined when there are not that many: all or nothing. */
  take(count: number): number[] | undefined {
    if (count > this.#free.length) return undefined;
    return count === 0 ? [] : this.#free.splice(-count).reverse();
  }

  give(pages: readonly number[]): void {
    for (let i = pages.length - 1; i >= 0; i--) this.#free.push(pages[i] as number);
    if (this.#free.length > this.total) throw new Error('pages were given back twice');
  }
}
