/** A clock that stands still until a test lets time pass or sets the wall clock. */
export class ManualClock {
  #ms = 1000;
  #wall: number;

  constructor(wall = Date.UTC(2030, 0, 1)) {
    this.#wall = wall;
  }

  readonly now = (): Date => new Date(this.#wall);
  readonly monotonic = (): number => this.#ms;

  pass(ms: number): void {
    this.#ms += ms;
    this.#wall += ms;
  }

  /** Sets the wall clock. */
  jump(ms: number): void {
    this.#wall += ms;
  }
}
