import process from 'node:process';
import { createContext, Script } from 'node:vm';

/** A computation on untrusted input took too long. */
export class TimeLimitExceeded extends Error {
  constructor() {
    super('it takes too long');
    this.name = 'TimeLimitExceeded';
  }
}

const context = createContext({});
const script = new Script('work()');

/**
 * Share of its time limit that a computation must have spent on the CPU to be too long; otherwise the machine was busy.
 */
const minShare = 0.8;
/** Attempts on a busy machine; each has twice the time limit of the one before. */
const maxTries = 5;

/**
 * Runs a synchronous computation on untrusted input, such as validation against a client's schema, with a time limit:
 * the event loop is blocked meanwhile. The computation may be stopped at any point and started again.
 * @param ms CPU time; on a busy machine the wall time may be longer
 * @throws TimeLimitExceeded
 */
export function runWithTimeLimit<Result>(ms: number, work: () => Result): Result {
  for (let tries = 1, timeout = ms; ; tries++, timeout *= 2) {
    const startCpuMs = threadCpuMs();
    try {
      return runWithTimeout(timeout, work);
    } catch (error) {
      if (!(error instanceof TimeLimitExceeded)) throw error;
      if (tries === maxTries || threadCpuMs() - startCpuMs >= minShare * ms) throw error;
    }
  }
}

function runWithTimeout<Result>(ms: number, work: () => Result): Result {
  const previous: unknown = context['work'];
  context['work'] = work;
  try {
    return script.runInContext(context, { timeout: ms }) as Result;
  } catch (error) {
    // An error of the other context is no instance of this context's `Error`.
    const { code } = error as { code?: unknown };
    throw code === 'ERR_SCRIPT_EXECUTION_TIMEOUT' ? new TimeLimitExceeded() : error;
  } finally {
    context['work'] = previous;
  }
}

/** CPU time of this thread so far, in ms. */
function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
