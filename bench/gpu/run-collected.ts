import { setTimeout as sleep } from 'node:timers/promises';
import { type Block, collected, type Context, Skip, type Test } from './test-api.ts';

/** Result of one test. */
export interface TestResult {
  /** Full name, including the enclosing blocks. */
  readonly test: string;
  readonly outcome: 'passed' | 'failed' | 'skipped';
  readonly ms: number;
  /** Error of a failed test, or reason of a skipped one. */
  readonly note?: string;
}

interface Listener {
  readonly start: (test: string) => void;
  readonly end: (result: TestResult) => void;
}

/**
 * Runs all collected tests in order.
 * @param limits a test that takes longer than `testMs` fails; it is not terminated, because a test that waits for a
 *   device cannot be. Tests that would start after `untilMs` (of `performance.now()`) are skipped.
 */
export const runCollected = (
  listener: Listener,
  limits: { testMs: number; untilMs: number },
): Promise<void> => runBlock(collected, [], { listener, ...limits, enclosing: [] });

interface Run {
  readonly listener: Listener;
  readonly testMs: number;
  readonly untilMs: number;
  /** The enclosing blocks, outermost first. */
  readonly enclosing: readonly Block[];
}

async function runBlock(block: Block, path: readonly string[], run: Run): Promise<void> {
  const { listener, testMs } = run;
  const reportAll = (outcome: TestResult['outcome'], note: string) => {
    for (const name of testsOf(block, path)) listener.end({ test: name, outcome, ms: 0, note });
  };
  if (block.skipped) {
    reportAll('skipped', 'the block is skipped');
    return;
  }
  try {
    for (const hook of block.hooks.beforeAll) await withTimeout(hook(), testMs);
  } catch (error) {
    reportAll('failed', `beforeAll: ${textOf(error)}`);
    return;
  }
  const inside = { ...run, enclosing: [...run.enclosing, block] };
  for (const part of block.parts) {
    const name = [...path, part.name];
    if ('parts' in part) await runBlock(part, name, inside);
    else await runTest(part, name.join(' > '), inside);
  }
  try {
    for (const hook of block.hooks.afterAll) await withTimeout(hook(), testMs);
  } catch (error) {
    const name = [...path, 'afterAll'].join(' > ');
    listener.end({ test: name, outcome: 'failed', ms: 0, note: textOf(error) });
  }
}

async function runTest(
  { body, skipped }: Test,
  name: string,
  { listener, testMs, untilMs, enclosing }: Run,
): Promise<void> {
  if (skipped || performance.now() > untilMs) {
    const note = skipped ? 'the test is skipped' : 'no time left';
    listener.end({ test: name, outcome: 'skipped', ms: 0, note });
    return;
  }
  listener.start(name);
  const start = performance.now();
  const end = (outcome: TestResult['outcome'], note?: string) => {
    const ms = Math.round(performance.now() - start);
    listener.end({ test: name, outcome, ms, ...(note === undefined ? {} : { note }) });
  };
  const context: Context = {
    skip(note) {
      throw new Skip(note);
    },
  };
  try {
    for (const { hooks } of enclosing) for (const hook of hooks.beforeEach) await hook();
    try {
      await withTimeout(body(context), testMs);
    } finally {
      for (const { hooks } of enclosing.toReversed()) for (const hook of hooks.afterEach) await hook();
    }
    end('passed');
  } catch (error) {
    if (error instanceof Skip) end('skipped', error.message);
    else end('failed', textOf(error));
  }
}

const testsOf = (block: Block, path: readonly string[]): string[] =>
  block.parts.flatMap((part) => {
    const name = [...path, part.name];
    return 'parts' in part ? testsOf(part, name) : [name.join(' > ')];
  });

async function withTimeout(work: unknown, ms: number): Promise<void> {
  const cancel = new AbortController();
  const timeout = sleep(ms, undefined, { signal: cancel.signal }).then(
    () => {
      throw new Error(`not done after ${ms / 1000} s`);
    },
    () => undefined,
  );
  try {
    await Promise.race([work, timeout]);
  } finally {
    cancel.abort();
  }
}

const textOf = (error: unknown): string =>
  error instanceof Error
    ? `${error.message}\n${(error.stack ?? '').split('\n').slice(-3).join('\n')}`
    : String(error);
