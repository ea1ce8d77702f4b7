/** A clock that is advanced manually; the wall clock can also be set separately. */
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
