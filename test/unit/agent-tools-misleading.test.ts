import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Bubblewrap } from '../../src/agent/tools/sandbox/bubblewrap.ts';
import { invisibleCharactersWarning } from '../../src/agent/tools/invisible-characters.ts';
import { toolWorlds } from '../support/agent-tools.ts';

const newWorld = toolWorlds();
// oxlint-disable-next-line no-control-regex -- what must not be there
const marks = /[\u0000-\u001f\u007f-\u009f\u202e\u2028]/;

describe('the proposal that a person reads before approval', () => {
  it('names a file on one line, whatever the model calls it', async () => {
    const world = await newWorld();
    const name = 'a\u001b[2K\nSummary: harmless \u202e.txt';
    const written = await world.proposed('fs_write', { path: name, content: 'x\n' });
    expect(written.summary).toMatch(
      /^Create .*a\\u\{1b\}\[2K\\u\{a\}Summary: harmless \\u\{202e\}\.txt \(2 bytes\)\.$/,
    );
    expect(written.diff?.split('\n')).toHaveLength(5);
    await writeFile(join(world.granted, name), 'x\n');
    const deleted = await world.proposed('fs_delete', { path: name });
    for (const { summary } of [written, deleted]) expect(summary).not.toMatch(marks);
  });

  it('has the intent on one line', async () => {
    const world = await newWorld();
    const intent = 'mend it\r\n\nSummary: nothing\u001b[8m\u202e';
    const { intent: shownIntent } = await world.proposed('fs_write', { path: 'a', content: 'x', intent });
    expect(shownIntent).toBe('mend it Summary: nothing\\u{1b}[8m\\u{202e}');
  });

  it('warns of added invisible characters', async () => {
    const world = await newWorld();
    const content = 'safe\rrm -rf\u001b[2K\u202e\u2028\n';
    const proposal = await world.proposed('fs_write', { path: 'a', content });
    expect(proposal.summary).toContain(
      'Warning: it adds invisible characters (U+000D, U+001B, U+202E, U+2028).',
    );
    // The diff stays exact.
    expect(proposal.diff).toContain(`+${content}`);
    await writeFile(join(world.granted, 'b'), content);
    const edits = [{ old_text: 'safe', new_text: 'fine' }];
    expect((await world.proposed('fs_edit', { path: 'b', edits })).summary).not.toContain('Warning');
  });

  it('does not warn of visible characters', () => {
    expect(invisibleCharactersWarning('', 'plain\twords\r\nänd 日本語 👨‍👩‍👧 ❤️ 👍🏽‍\n')).toBe('');
    expect(invisibleCharactersWarning('', 'a\u200db')).toContain('U+200D');
    expect(invisibleCharactersWarning('\u200b', '\u200b\u200b')).toContain('U+200B');
    const all = Array.from({ length: 9 }, (_, at) => String.fromCodePoint(0x2060 + at)).join('');
    expect(invisibleCharactersWarning('', all)).toMatch(/and others\)\.$/);
  });
});

const found = await Bubblewrap.probe();
describe.skipIf(typeof found === 'string')('run_command', () => {
  it('refuses a command that is too long to review', async () => {
    const world = await newWorld({ sandbox: found });
    const argv = Array.from({ length: 200 }, () => 'z'.repeat(1000));
    await expect(world.propose('run_command', { argv })).resolves.toMatchObject({
      ok: false,
      output: expect.stringContaining('more than a person can approve') as string,
    });
  });

  it('does not run when the shown folder was replaced', async () => {
    const world = await newWorld({ sandbox: found });
    for (const name of ['shown', 'other']) await mkdir(join(world.granted, name));
    const proposal = await world.proposed('run_command', { argv: ['touch', 'made'], cwd: 'shown' });
    await rename(join(world.granted, 'shown'), join(world.granted, 'gone'));
    await symlink('other', join(world.granted, 'shown'));
    await expect(world.apply('run_command', proposal)).rejects.toMatchObject({ code: 'base_moved' });
  });
});
