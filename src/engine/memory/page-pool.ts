/**
 * Reference counts of KV cache pages. A page is free, owned (used by at least one sequence), or cached (retained by
 * the prefix cache and used by no sequence): `free + cached + owned = total`. This class does not hold the memory
 * itself.
 */
export class PagePool {
  readonly total: number;
  readonly #free: number[];
  readonly #users: Uint32Array;
  readonly #retained: Uint8Array;
  #cached = 0;

  constructor(total: number) {
    this.total = total;
    // In reverse order, so that page 0 is allocated first.
    this.#free = Array.from({ length: total }, (_, index) => total - 1 - index);
    this.#users = new Uint32Array(total);
    this.#retained = new Uint8Array(total);
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

  /** Number of sequences that use the page. */
  users(page: number): number {
    return this.#users[page] ?? 0;
  }

  isRetained(page: number): boolean {
    return this.#retained[page] === 1;
  }

  /** Allocates a free page with one user; undefined when none is free. */
  allocate(): number | undefined {
    const page = this.#free.pop();
    if (page !== undefined) this.#users[page] = 1;
    return page;
  }

  /** Adds a user to an owned or cached page. */
  addUser(page: number): void {
    const users = this.users(page);
    if (users === 0) {
      if (!this.isRetained(page)) throw new Error(`page ${page} is free and cannot get another user`);
      this.#cached -= 1;
    }
    this.#users[page] = users + 1;
  }

  /** Removes a user; a page without users becomes cached or free. */
  removeUser(page: number): void {
    const users = this.users(page);
    if (users === 0) throw new Error(`page ${page} was released twice`);
    this.#users[page] = users - 1;
    if (users > 1) return;
    if (this.isRetained(page)) this.#cached += 1;
    else this.#free.push(page);
  }

  /** Marks a page in use as retained by the prefix cache. */
  retain(page: number): void {
    if (this.users(page) === 0) throw new Error(`page ${page} has no user and cannot be retained`);
    if (this.isRetained(page)) throw new Error(`page ${page} is already retained`);
    this.#retained[page] = 1;
  }

  /** Ends retention by the prefix cache; a page without users becomes free. */
  release(page: number): void {
    if (!this.isRetained(page)) throw new Error(`page ${page} is not retained`);
    this.#retained[page] = 0;
    if (this.users(page) > 0) return;
    this.#cached -= 1;
    this.#free.push(page);
  }
}
