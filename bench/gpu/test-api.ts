/**
 * The part of vitest's API that the GPU tests use, for a machine without its runner: `describe`, `it` and hooks that
 * collect tests, and vitest's own `expect`. bench/gpu/run-collected.ts runs the collected tests.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { format } from 'node:util';
import { expect as vitestExpect } from 'vitest';

export interface Context {
  readonly skip: (note?: string) => never;
}
type Body = (context: Context) => unknown;
type Hook = () => unknown;

export interface Test {
  readonly name: string;
  readonly body: Body;
  readonly skipped: boolean;
}
export interface Block {
  readonly name: string;
  readonly skipped: boolean;
  readonly parts: (Test | Block)[];
  readonly hooks: Readonly<Record<'beforeAll' | 'afterAll' | 'beforeEach' | 'afterEach', Hook[]>>;
}

/** Thrown by a test that does not apply to this machine. */
export class Skip extends Error {}

const newBlock = (name: string, skipped: boolean): Block => ({
  name,
  skipped,
  parts: [],
  hooks: { beforeAll: [], afterAll: [], beforeEach: [], afterEach: [] },
});

/** All tests of the file. */
export const collected = newBlock('', false);
let currentBlock = collected;

function collectBlock(name: string, body: () => unknown, skipped = false): void {
  const outer = currentBlock;
  const block = newBlock(name, skipped || outer.skipped);
  outer.parts.push(block);
  // Vitest does not collect the body of a skipped block either.
  if (skipped) return;
  currentBlock = block;
  try {
    const result = body();
    if (result instanceof Promise) throw new Error(`the block '${name}' is asynchronous`);
  } finally {
    currentBlock = outer;
  }
}

/** Accepts `(name, body, timeout)` and `(name, options, body)`; time limits are set by the runner. */
const bodyOf = (rest: readonly unknown[]): Body =>
  (rest.find((one) => typeof one === 'function') as Body | undefined) ?? (() => undefined);

function collectTest(name: string, rest: readonly unknown[], skipped = false): void {
  currentBlock.parts.push({ name, body: bodyOf(rest), skipped });
}

/** `each` of vitest: fills placeholders in the name, and spreads arrays over name and body. */
const each =
  (collect: (name: string, body: Body) => void) =>
  (cases: readonly unknown[]) =>
  (name: string, ...rest: readonly unknown[]) => {
    const body = bodyOf(rest) as (...values: readonly unknown[]) => unknown;
    cases.forEach((one, index) => {
      const values = Array.isArray(one) ? (one as readonly unknown[]) : [one];
      const filledName = format(name.replaceAll('%#', String(index)), ...values.slice(0, placeholders(name)));
      const testName = filledName.replaceAll(
        /\$([\w.]+)/g,
        (whole, path: string) => memberOf(one, path) ?? whole,
      );
      collect(testName, () => body(...values));
    });
  };

const placeholders = (name: string): number => name.match(/%[sdifjoO]/g)?.length ?? 0;

function memberOf(value: unknown, path: string): string | undefined {
  const member = path
    .split('.')
    .reduce<unknown>((object, key) => (object as Record<string, unknown> | undefined)?.[key], value);
  return member === undefined ? undefined : format(typeof member === 'string' ? '%s' : '%o', member);
}

export const describe = Object.assign(
  (name: string, ...rest: readonly unknown[]) => collectBlock(name, bodyOf(rest) as () => unknown),
  {
    skip: (name: string, ...rest: readonly unknown[]) =>
      collectBlock(name, bodyOf(rest) as () => unknown, true),
    skipIf: (condition: unknown) => (condition ? describe.skip : describe),
    runIf: (condition: unknown) => (condition ? describe : describe.skip),
    each: each((name, body) => collectBlock(name, body as () => unknown)),
  },
);
export const it = Object.assign((name: string, ...rest: readonly unknown[]) => collectTest(name, rest), {
  skip: (name: string, ...rest: readonly unknown[]) => collectTest(name, rest, true),
  skipIf: (condition: unknown) => (condition ? it.skip : it),
  runIf: (condition: unknown) => (condition ? it : it.skip),
  each: each((name, body) => collectTest(name, [body])),
});
export const test = it;
export const beforeAll = (hook: Hook) => void currentBlock.hooks.beforeAll.push(hook);
export const afterAll = (hook: Hook) => void currentBlock.hooks.afterAll.push(hook);
export const beforeEach = (hook: Hook) => void currentBlock.hooks.beforeEach.push(hook);
export const afterEach = (hook: Hook) => void currentBlock.hooks.afterEach.push(hook);

/** Vitest's default is 1 s; loading a model again took longer on an H200 (2026-11-27). */
const pollMs = 120_000;

/** Replaces vitest's `expect.poll`, which needs its runner: retries until the matcher passes. */
function poll(getValue: () => unknown, options: { timeout?: number; interval?: number } = {}): unknown {
  const matchers = (negated: boolean): unknown =>
    new Proxy(
      {},
      {
        get: (_, matcher: string) => {
          if (matcher === 'not') return matchers(!negated);
          return async (...expected: readonly unknown[]) => {
            const end = performance.now() + (options.timeout ?? pollMs);
            for (;;) {
              try {
                const found = vitestExpect(await getValue());
                const side = (negated ? found.not : found) as unknown as Record<
                  string,
                  (...values: readonly unknown[]) => void
                >;
                const matcherFunction = side[matcher];
                if (!matcherFunction) throw new Error(`expect.poll has no matcher '${matcher}'`);
                matcherFunction.apply(side, [...expected]);
                return;
              } catch (error) {
                if (performance.now() > end) throw error;
                await sleep(options.interval ?? 50);
              }
            }
          };
        },
      },
    );
  return matchers(false);
}

export const expect = new Proxy(vitestExpect, {
  get: (target, key, receiver) => (key === 'poll' ? poll : Reflect.get(target, key, receiver)),
});
