import { describe, expect, it } from 'vitest';
import { commandsOf, decide, type Facts, type Step } from '../../scripts/services-plan.mjs';

/** A fresh Debian, seen as root: what CI starts on. */
const bare: Facts = {
  platform: 'linux',
  root: true,
  apt: true,
  postgres: false,
  bubblewrap: false,
  chromium: false,
};
const planFor = (facts: Partial<Facts>): Step => decide({ ...bare, ...facts });
const messageFor = (facts: Partial<Facts>): string => {
  const step = planFor(facts);
  if (step.kind !== 'without') throw new Error(`not without: ${JSON.stringify(step)}`);
  return step.message;
};
const commandsFor = (facts: Partial<Facts>): string[] => {
  const step = planFor(facts);
  return step.kind === 'install' ? commandsOf(step) : [];
};

describe('what the tests need besides the product', () => {
  it('is installed as root, and only what is missing', () => {
    expect(commandsFor({})).toEqual([
      'apt-get update',
      'apt-get install -y --no-install-recommends postgresql bubblewrap chromium',
    ]);
    expect(commandsFor({ postgres: true }).at(-1)).toMatch(/recommends bubblewrap chromium$/);
    expect(commandsFor({ postgres: true, bubblewrap: true }).at(-1)).toMatch(/recommends chromium$/);
    expect(commandsFor({ bubblewrap: true }).at(-1)).toMatch(/recommends postgresql chromium$/);
  });

  it('is left alone where it is', () => {
    const there = { postgres: true, bubblewrap: true, chromium: true };
    for (const facts of [there, { ...there, root: false }, { ...there, apt: false }])
      expect(planFor(facts)).toEqual({ kind: 'ready' });
    expect(planFor({ platform: 'darwin', postgres: true, chromium: true })).toEqual({ kind: 'ready' });
  });

  it('is done without where it cannot be had, with the commands that would bring it', () => {
    expect(messageFor({ root: false })).toMatch(
      /skipped\.\nTo run them, as root:\n {2}apt-get update\n {2}apt-get install/,
    );
    expect(messageFor({ root: false, postgres: true })).toMatch(/^bubblewrap, Chromium: not installed/);
    expect(messageFor({ apt: false })).toMatch(/^PostgreSQL, bubblewrap, Chromium: .*\n[^]*dnf install/);
    expect(messageFor({ platform: 'darwin', root: false })).toMatch(/brew install postgresql/);
    expect(messageFor({ platform: 'win32', root: false, apt: false })).toMatch(/They run on Linux and macOS/);
  });
});
