/** One word and one tone for each state, in all views; colors only from the tokens. */
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { components } from '../../web/api/schema.d.ts';
import type { components as gatewayComponents } from '../../web/api/gateway-schema.d.ts';
import { isOpenState, stateLabel, stateTone, stateTones } from '../../web/ui/states.ts';

type Schemas = components['schemas'];
type StateOf<Resource extends { state: string }> = Record<Resource['state'], string>;

/** Word and tone of every state on the wires. A new state does not compile before it has its line. */
const wires = {
  sessions: {
    running: 'running',
    paused: 'paused: warn',
    suspended: 'waiting: warn',
    waiting: 'waiting: warn',
    completed: 'done: good',
    failed: 'failed: bad',
    cancelled: 'cancelled',
  } satisfies StateOf<Schemas['Session']>,
  'pending changes': {
    staged: 'staged: warn',
    applying: 'applying',
    applied: 'applied: good',
    expired: 'expired: warn',
    discarded: 'discarded',
    failed: 'failed: bad',
  } satisfies StateOf<Schemas['PendingChangeDetail']>,
  kernels: {
    accepted: 'accepted: good',
    unverified: 'unverified: warn',
    stale: 'stale: warn',
    rejected: 'rejected: bad',
    quarantined: 'quarantined: bad',
  } satisfies StateOf<Schemas['LabKernel']>,
  steps: { skipped: 'skipped', interrupted: 'interrupted: bad' },
  'recorded outcomes': {
    ok: 'done: good',
    refused: 'refused: bad',
    failed: 'failed: bad',
    cut: 'cut off: bad',
    abandoned: 'cancelled',
  },
  'gateway outcomes': {
    completed: 'done: good',
    failed: 'failed: bad',
    client_gone: 'cancelled',
    cut: 'cut off: bad',
  } satisfies Record<NonNullable<gatewayComponents['schemas']['ListedRequest']['outcome']>, string>,
  'gateway requests': { running: 'running', refused: 'refused: bad', crash: 'crashed: bad' },
  'gateway keys': {
    active: 'active: good',
    disabled: 'disabled: warn',
    expired: 'expired: warn',
    revoked: 'revoked: bad',
  },
  models: { ready: 'ready: good', loading: 'loading: warn' },
};

const shown = (state: string): string =>
  [stateLabel(state), stateTone(state)].filter((part) => part !== undefined).join(': ');

test.each(Object.entries<Record<string, string>>(wires))('states of %s', (_, expected) => {
  expect(Object.fromEntries(Object.keys(expected).map((state) => [state, shown(state)]))).toEqual(expected);
});

test('a state of another version is shown unchanged, without a tone', () => {
  expect(shown('defrosted')).toBe('defrosted');
  expect(shown('toString')).toBe('toString');
  expect(shown('')).toBe('unknown');
});

test('what ended is known also while the host does not answer, and what has not is not', () => {
  expect(['running', 'queued', 'suspended', 'staged'].filter(isOpenState)).toHaveLength(4);
  expect(['completed', 'failed', 'client_gone', 'revoked'].filter(isOpenState)).toEqual([]);
});

const sources = (pattern: string) =>
  globSync(pattern)
    .toSorted()
    .map((file) => [file, readFileSync(file, 'utf8')] as const);

test('no view has its own word or tone for a state', () => {
  const words = Object.keys(stateTones).join('|');
  const ownBadge = new RegExp(
    `<(?:Live)?Badge\\b[^>]*>\\s*(?:\\{[^}]*'(?:${words})'[^}]*\\}|(?:${words}))\\s*<`,
    'g',
  );
  const own = sources('web/{console,gateway}/**/*.tsx').flatMap(([file, text]) =>
    [...text.matchAll(ownBadge)].map(([badge]) => `${file}: ${badge}`),
  );
  expect(own).toEqual([]);
});

test('colors are tokens: no style outside of web/ui/styles has one of its own', () => {
  const color =
    /#[\da-f]{3,8}\b|\b(?:rgba?|hsla?|hwb|lab|lch|oklab|oklch|color)\(|:\s*(?:white|black|gr[ae]y|red|green|blue|yellow|orange|purple)\b/gi;
  const raw = sources('web/**/*.css')
    .filter(([file]) => !file.startsWith('web/ui/styles/'))
    .flatMap(([file, text]) => [...text.matchAll(color)].map(([found]) => `${file}: ${found}`));
  expect(raw).toEqual([]);
  // Styles and drawings in the sources of components.
  const inSources = sources('web/**/*.tsx')
    .filter(([file]) => !file.startsWith('web/ui/styles/'))
    .flatMap(([file, text]) =>
      [
        ...text.matchAll(
          /(?:fill|stroke|color|background\w*)(?:=|:\s*)["'](?:#[\da-f]{3,8}\b|(?:rgb|hsl)a?\()/gi,
        ),
      ].map(([found]) => `${file}: ${found}`),
    );
  expect(inSources).toEqual([]);
  // A name that no theme defines is no color.
  const names = (text: string) =>
    [...text.matchAll(/(--[\w-]+)(?:['"](?: as string\])?)?[:,]/g)].map(([, name]) => name);
  const tokens = new Set(
    [...sources('web/ui/styles/*.css'), ...sources('web/**/*.tsx')].flatMap(([, text]) => names(text)),
  );
  const undefinedNames = sources('web/**/*.css').flatMap(([file, text]) => {
    const own = new Set(names(text));
    return [...text.matchAll(/var\((--[\w-]+)\)/g)]
      .filter(([, name]) => !tokens.has(name) && !own.has(name))
      .map(([, name]) => `${file}: ${name}`);
  });
  expect(undefinedNames).toEqual([]);
});
