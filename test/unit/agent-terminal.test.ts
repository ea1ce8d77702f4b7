/** What the agent's terminal client reads and shows. */
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { diffText } from '../../src/agent-tool/diff-text.ts';
import { EventText } from '../../src/agent-tool/event-text.ts';
import { Input } from '../../src/agent-tool/input.ts';
import { agentHelpText } from '../../src/agent-tool/command-table.ts';
import type { TurnEvent } from '../../src/client/index.ts';
import { printableLine, printableLines } from '../../src/terminal/lines.ts';
import { programName } from '../../src/terminal/program-name.ts';
import { until } from '../support/until.ts';

const up = '\u001b[A';
const pasted = (text: string) => `\u001b[200~${text}\u001b[201~`;

function terminal() {
  const modes: boolean[] = [];
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => modes.push(isRaw),
  });
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 100, rows: 40 });
  let output = '';
  stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const exits: (() => void)[] = [];
  const input = new Input(stdin, stdout, { hasLines: false, onExit: (listener) => exits.push(listener) });
  /** Asks, and types when the question is shown. */
  const ask = async (typed: string, kind: 'message' | 'decision' = 'message', withdrawn?: AbortSignal) => {
    const from = output.length;
    const answer = input.ask('> ', kind, withdrawn);
    await until(() => output.slice(from).includes('> '));
    stdin.write(typed);
    return await answer;
  };
  return { input, ask, stdin, modes, exits, output: () => output };
}

describe('the input of a terminal', () => {
  it('takes pasted lines as one message, and brings it back with the Up key', async () => {
    const { ask, modes, output } = terminal();
    const lines = { line: 'first line\nsecond \\\n\nthird line' };
    expect(await ask(`${pasted('first line\nsecond \\\r\n\rthird')} line\r`)).toEqual(lines);
    expect(await ask('next\r')).toEqual({ line: 'next' });
    expect(await ask(`${up}${up}\r`)).toEqual(lines);
    expect(await ask(`y\r`, 'decision')).toEqual({ line: 'y' });
    // The answers to questions are not in the history.
    expect(await ask(`${up}\r`)).toEqual(lines);
    expect(output().split('\u001b[?2004h')).toHaveLength(6);
    expect(output().split('\u001b[?2004l')).toHaveLength(6);
    expect(modes.at(-1)).toBe(false);
  });

  it('goes on after a backslash, and keeps lines of one write for the next messages', async () => {
    const { ask, input } = terminal();
    expect(await ask('one \\\rtwo\r')).toEqual({ line: 'one \ntwo' });
    expect(await ask('first\rsecond\rthird\r')).toEqual({ line: 'first' });
    expect(await ask('yes\r', 'decision')).toEqual({ line: 'yes' });
    expect(await input.ask('> ', 'message')).toEqual({ line: 'second', isEarly: true });
    expect(await input.ask('> ', 'message')).toEqual({ line: 'third', isEarly: true });
  });

  it('takes nothing as a decision that was typed before the question was shown', async () => {
    const { ask, input, stdin } = terminal();
    await ask('hello\r');
    stdin.write('y\r');
    expect(await ask('no\r', 'decision')).toEqual({ line: 'no' });
    expect(await input.ask('> ', 'message')).toEqual({ line: 'y', isEarly: true });
  });

  it('clears a message at Ctrl-C, then is interrupted; a question is taken back with what was typed', async () => {
    const { ask, stdin, input, exits, output } = terminal();
    expect(await ask(`${pasted('a\nb')}\u0003fine\r`)).toEqual({ line: 'fine' });
    expect(await ask('\u0003')).toBe('interrupted');
    expect(await ask('ye\u0003', 'decision')).toBe('interrupted');
    const withdrawn = new AbortController();
    const answer = ask('ye', 'decision', withdrawn.signal);
    await until(() => stdin.readableLength === 0);
    setTimeout(() => withdrawn.abort(), 50);
    expect(await answer).toBe('withdrawn');
    expect(await ask('ok\r')).toEqual({ line: 'ok' });
    expect(await ask('\u0004')).toBe('end');
    expect(await ask(`${up}\r`)).toEqual({ line: 'ok' });
    // A process that ends at a question leaves the terminal as it was.
    void input.ask('> ', 'message');
    for (const exit of exits) exit();
    expect(output().endsWith('\u001b[?2004l')).toBe(true);
  });
});

describe('diffs', () => {
  const paint = (_style: string, text: string) => text;
  const show = (diff: string, path = '/home/me/p/\u00fcn \u{1F600}.txt') =>
    diffText(diff, { path, cwd: '/home/me/p' }, paint);
  const header =
    '--- "a/home/me/p/\\303\\274n \\360\\237\\230\\200.txt"\n+++ "b/home/me/p/x"\n@@ -1,2 +1,2 @@\n';

  it('name the file as it is, from the working folder', () => {
    expect(show(`${header} a\n-b\n+c\n`)).toBe(
      '--- a/\u00fcn \u{1F600}.txt\n+++ b/\u00fcn \u{1F600}.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c',
    );
    expect(show('--- /dev/null\n+++ b/etc/x\n@@ -0,0 +1,1 @@\n+a\n', '/etc/x')).toBe(
      '--- /dev/null\n+++ b/etc/x\n@@ -0,0 +1,1 @@\n+a',
    );
  });

  it('say once what the line ends are, and show those that differ', () => {
    const body = (diff: string) =>
      show(header + diff)
        .split('\n')
        .slice(3);
    expect(body(' a\r\n-b\r\n+c\r\n')).toEqual([' a', '-b', '+c', '(CRLF line ends)']);
    expect(body(' a\r\n-b\n\\ No newline at end of file\n+c\r\n')).toContain('(CRLF line ends)');
    expect(body('-b\r\n+b\n')).toEqual(['-b', '+b', '(line ends: CRLF before, LF after)']);
    expect(body(' a\n-b\r\n+c\n')).toEqual([' a', '-b\\r', '+c', '(some lines end in CRLF, shown as \\r)']);
    expect(body(' a\n-b\n+c\n')).toEqual([' a', '-b', '+c']);
  });
});

describe('events', () => {
  const text = (events: readonly object[], more?: (output: string) => string) => {
    let output = '';
    const paint = (_style: string, one: string) => one;
    const events_ = new EventText((one) => (output += one), { paint, width: 80 }, more);
    for (const event of events) events_.add(event as TurnEvent);
    return output;
  };
  const result = { type: 'tool_result', ok: true, output: `1\r\n2\n3\n4\n5\n6\n` };

  it('show line breaks of arguments as \\n, and cut outputs with a hint', () => {
    expect(text([{ type: 'tool_call', tool: 'x', arguments: { content: '# a\n\tb', n: 1 } }])).toBe(
      'x content: # a\\n\\tb, n: 1\n',
    );
    expect(text([result])).toBe('  1\n  2\n  3\n  4\n  5\n  6\n');
    expect(text([result], () => '/output 1')).toBe('  1\n  2\n  3\n  4\n  ... 2 more lines: /output 1\n');
  });

  it('say that an answer is empty', () => {
    expect(text([{ type: 'turn' }, { type: 'answer', text: '' }])).toBe('(The model answered nothing.)\n');
  });
});

describe('names and texts', () => {
  it('name the program as it can be called again', () => {
    expect(programName('/usr/bin/lathe-agent', '/bin:/usr/bin')).toBe('lathe-agent');
    expect(programName('/opt/lathe/dist/agent.js', '/usr/bin')).toBe('node /opt/lathe/dist/agent.js');
    expect(programName("/my files/a'b/agent.js")).toBe(`node '/my files/a'\\''b/agent.js'`);
    expect(programName('/p/node_modules/.bin/lathe-agent', '/bin')).toBe('/p/node_modules/.bin/lathe-agent');
    expect(agentHelpText('1', 'lathe-agent')).toContain('Usage: lathe-agent [COMMAND]');
  });

  it('escape line breaks in one line, and keep them in several', () => {
    expect(printableLine('a\r\n\tb\u001b')).toBe('a\\r\\n\\tb\ufffd');
    expect(printableLines('a\r\nb\u001b\tc')).toBe('a\nb\ufffd\tc');
  });
});
