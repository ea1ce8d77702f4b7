/** Lets a person stop the tool calls that a task runs, so that the task goes on without them. */
export class CallControl {
  readonly #running = new Set<RunningCall>();

  /** Stops the running calls. @returns false when none can be stopped */
  stop(): boolean {
    return [...this.#running].map((call) => call.stop()).includes(true);
  }

  async run<T>(call: (running: RunningCall) => Promise<T>): Promise<T> {
    const running = new RunningCall();
    this.#running.add(running);
    try {
      return await call(running);
    } finally {
      this.#running.delete(running);
    }
  }
}

/** A tool call that can be stopped. */
export class RunningCall {
  readonly #controller = new AbortController();
  #stop = (): boolean => {
    if (this.signal.aborted) return false;
    this.#controller.abort(new CallStopped());
    return true;
  };

  /** Aborted when a person stops the call. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  stop(): boolean {
    return this.#stop();
  }

  /** Runs the rest of the call, which is stopped in another way. @param stop returns whether there was something to stop */
  async stoppedBy<T>(stop: () => boolean, rest: () => Promise<T>): Promise<T> {
    this.#stop = stop;
    return await rest();
  }
}

export class CallStopped extends Error {
  constructor() {
    super('a person stopped this call');
    this.name = 'CallStopped';
  }
}
