/**
 * The pages of the KV cache as numbers: how many sequences use each, and whether the prefix cache keeps it.
 * The memory is elsewhere. A page is free, or owned (somebody uses it), or cached (kept, and used by nobody):
 * `free + cached + owned = total`.
 */
export class PagePool {
  readonly total: number;
  readonly #free: number[];
  readonly #users: Uint32Array;
  readonly #kept: Uint8Array;
  #cached = 0;

  constructor(total: number) {
    this.total = total;
    // From the end, so that the first taken is page 0.
    this.#free = Array.from({ length: total }, (_, index) => total - 1 - index);
    this.#users = new Uint32Array(total);
    this.#kept = new Uint8Array(total);
  }

  get free(): number {
    return this.#free.length;
  }

  get cached(): number {
    return this.#cached;
  }

  get owned(): number {
    return this.total - this.#free.length - this.#cached;
  }

  /** Sequences that use the page. */
  users(page: number): number {
    return this.#users[page] ?? 0;
  }

  isKept(page: number): boolean {
    return this.#kept[page] === 1;
  }

  /** A free page, with one user from now on; undefined when none is free. */
  take(): number | undefined {
    const page = this.#free.pop();
    if (page !== undefined) this.#users[page] = 1;
    return page;
  }

  /** One more sequence uses a page that is owned or cached. */
  share(page: number): void {
    const users = this.users(page);
    if (users === 0) {
      if (!this.isKept(page)) throw new Error(`page ${page} is free and cannot be shared`);
      this.#cached -= 1;
    }
    this.#users[page] = users + 1;
  }

  /** One sequence fewer uses it; without any it is cached or free. */
  leave(page: number): void {
    const users = this.users(page);
    if (users === 0) throw new Error(`page ${page} was given back twice`);
    this.#users[page] = users - 1;
    if (users > 1) return;
    if (this.isKept(page)) this.#cached += 1;
    else this.#free.push(page);
  }

  /** The prefix cache keeps a page that somebody uses. */
  keep(page: number): void {
    if (this.users(page) === 0) throw new Error(`page ${page} is nobody's and cannot be kept`);
    if (this.isKept(page)) throw new Error(`page ${page} is kept already`);
    this.#kept[page] = 1;
  }

  /** The prefix cache lets it go; without users it is free. */
  forget(page: number): void {
    if (!this.isKept(page)) throw new Error(`page ${page} is not kept`);
    this.#kept[page] = 0;
    if (this.users(page) > 0) return;
    this.#cached -= 1;
    this.#free.push(page);
  }
}
