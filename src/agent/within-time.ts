import { createContext, Script } from 'node:vm';

/** Work of strangers took longer than anybody waits for. */
export class TookTooLong extends Error {
  constructor() {
    super('it takes too long');
    this.name = 'TookTooLong';
  }
}

const context = createContext({});
const script = new Script('work()');

/**
 * Does work that strangers may have made endless, such as checking a value against their schema, and cuts it off: while
 * it lasts, the host does nothing else. The work must be such that it may end anywhere.
 * @throws TookTooLong
 */
export function withinTime<Result>(ms: number, work: () => Result): Result {
  const before: unknown = context['work'];
  context['work'] = work;
  try {
    return script.runInContext(context, { timeout: ms }) as Result;
  } catch (error) {
    // Of the other context, so it is no instance of our `Error`.
    const { code } = error as { code?: unknown };
    throw code === 'ERR_SCRIPT_EXECUTION_TIMEOUT' ? new TookTooLong() : error;
  } finally {
    context['work'] = before;
  }
}
