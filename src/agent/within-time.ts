import process from 'node:process';
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

/** Of the time that it was given, what work must have computed to be too long: else the machine was busy with others. */
const leastShare = 0.8;
/** How often it is given more time, twice as much each time. */
const mostTries = 5;

/**
 * Does work that strangers may have made endless, such as checking a value against their schema, and cuts it off: while
 * it lasts, the host does nothing else. The work must be such that it may end anywhere and begin anew.
 * @param ms of computing; on a busy machine that may take longer
 * @throws TookTooLong
 */
export function withinTime<Result>(ms: number, work: () => Result): Result {
  for (let tries = 1, timeout = ms; ; tries++, timeout *= 2) {
    const begun = computed();
    try {
      return cutOff(timeout, work);
    } catch (error) {
      if (!(error instanceof TookTooLong)) throw error;
      if (tries === mostTries || computed() - begun >= leastShare * ms) throw error;
    }
  }
}

function cutOff<Result>(ms: number, work: () => Result): Result {
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

/** What this thread has computed so far, in ms. */
function computed(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
