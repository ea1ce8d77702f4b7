/** Lets a person stop the tool call that a task runs, so that the task goes on without it. */
export class CallControl {
  #stop: (() => boolean) | undefined;

  /** Stops the running call. @returns false when none runs */
  stop(): boolean {
    return this.#stop?.() ?? false;
  }

  /** Runs a call with a signal that `stop` aborts. */
  async run<T>(call: (stopped: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    return await this.stoppable(
      () => {
        if (controller.signal.aborted) return false;
        controller.abort(new CallStopped());
        return true;
      },
      () => call(controller.signal),
    );
  }

  /** Runs a part of a call that is stopped in another way. @param stop returns whether there was something to stop */
  async stoppable<T>(stop: () => boolean, call: () => Promise<T>): Promise<T> {
    const outer = this.#stop;
    this.#stop = stop;
    try {
      return await call();
    } finally {
      this.#stop = outer;
    }
  }
}

export class CallStopped extends Error {
  constructor() {
    super('a person stopped this call');
    this.name = 'CallStopped';
  }
}
