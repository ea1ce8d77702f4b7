import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Screen } from '../../src/lab-tool/screen.ts';
import { screenView } from '../../src/lab-tool/watch-views.ts';
import type { Terminal } from '../../src/terminal/terminal.ts';
import { benchResult, gate } from '../support/fake-lab-host.ts';

const enter = '\u001b[?1049h';
const leave = '\u001b[?7h\u001b[?25h\u001b[?1049l';

const terminal = (rows = 24) => {
  let written = '';
  const out = Object.assign(new EventEmitter(), {
    isTTY: true,
    columns: 80,
    rows,
    write(text: string) {
      written += text;
      return true;
    },
  });
  return {
    out: out as unknown as Terminal,
    resize: () => out.emit('resize'),
    all: () => written,
    /** Lines of the last picture. */
    picture: () =>
      (written.split('\u001b[H').at(-1) ?? '')
        .split('\u001b[J')[0]
        ?.replaceAll('\u001b[K', '')
        .split('\r\n') ?? [],
  };
};

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('the screen', () => {
  test('redraws once for a burst, and restores the terminal with the last contents', () => {
    const { out, all, picture } = terminal();
    const screen = new Screen(out);
    screen.show(['one']);
    screen.show(['two']);
    vi.runAllTimers();
    expect(all().startsWith(enter)).toBe(true);
    expect(all()).not.toContain('one');
    expect(picture()).toEqual(['two']);
    screen.close();
    expect(all().endsWith(`${leave}two\n`)).toBe(true);
    const length = all().length;
    screen.close();
    vi.runAllTimers();
    expect(all()).toHaveLength(length);
  });

  test('reports hidden lines, and redraws after a resize', () => {
    const { out, resize, picture } = terminal(3);
    const screen = new Screen(out);
    screen.show(['1', '2', '3', '4', '5']);
    vi.runAllTimers();
    expect(picture()).toEqual(['1', '2', '… 3 more lines']);
    Object.assign(out, { rows: 5 });
    resize();
    expect(picture()).toEqual(['1', '2', '3', '4', '5']);
  });

  test('writes nothing if it was never shown', () => {
    const { out, all } = terminal();
    new Screen(out).close();
    expect(all()).toBe('');
  });
});

describe('the watch view', () => {
  const report = (source: string) => gate({ name: 'k', op: 'rms_norm', source, dispatch: { x: 'tokens' } });
  const outcome = (source: string) => ({
    file: 'k.wgsl',
    kernel: 'k',
    op: 'rms_norm',
    accepted: report(source).accepted,
    findings: report(source).stages.flatMap((stage) =>
      stage.findings.map((each) => ({ ...each, file: 'k.wgsl' })),
    ),
    report: report(source),
    bind: [],
    lines: new Map([['k.wgsl', source.split('\n')]]),
  });

  test('shows only the current state', () => {
    const { out, picture } = terminal();
    const look = { paint: (_: string, text: string) => text, width: 80 };
    const view = screenView(new Screen(out), look, () => new Date(2026, 0, 1, 12, 3, 44));
    const now = () => {
      vi.runAllTimers();
      return picture().join('\n');
    };
    view({ event: 'start', url: 'http://127.0.0.1:8080', files: ['k.wgsl'] });
    expect(now()).toBe('lathe lab watch  http://127.0.0.1:8080  12:03:44  Ctrl-C ends\n\n… k.wgsl');
    view({ event: 'gate', file: 'k.wgsl', outcomes: [outcome('fn main() {}')] });
    view({ event: 'bound', file: 'k.wgsl', kernel: 'k', components: ['layers.0.norm', 'layers.1.norm'] });
    view({ event: 'benching' });
    expect(now()).toContain('measuring …');
    view({ event: 'bench', result: benchResult() });
    expect(now()).toContain('bench  my_norm, 12 rounds\n  decode  +6.8% (+5.6% to +8.1%) faster\n');
    expect(now()).not.toContain('measuring');
    expect(now()).toContain('5 of 5 cases, worst nmse 6.0e-14, limit 1.0e-7');
    expect(now()).toContain('✓ k runs layers.*.norm (2 components)');
    view({ event: 'gating', file: 'k.wgsl' });
    expect(now()).toContain('checking …');
    view({ event: 'gate', file: 'k.wgsl', outcomes: [outcome('bad')] });
    expect(now()).toContain('✗ k.wgsl  k (rms_norm)  rejected');
    expect(now()).toContain('k.wgsl:1:1 error[out_of_bounds]');
    expect(now()).toContain('k: the previous version stays bound');
    expect(now()).not.toContain('accepted');
    view({ event: 'host_gone', message: 'no host listens' });
    expect(now()).toContain('! no host listens; retrying');
    view({ event: 'host_back' });
    expect(now()).not.toContain('no host listens');
  });
});
