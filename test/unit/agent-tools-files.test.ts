import { applyPatch } from 'diff';
import fc from 'fast-check';
import {
  chmod,
  lstat,
  mkdir,
  readFile,
  readdir,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { toolWorlds } from '../support/agent-tools.ts';

const newWorld = toolWorlds();

describe('fs_list', () => {
  it('shows folders and links down to the requested depth, sorted and bounded', async () => {
    const world = await newWorld();
    await mkdir(join(world.granted, 'b', 'c', 'd'), { recursive: true });
    await writeFile(join(world.granted, 'b', 'c', 'file'), '');
    await writeFile(join(world.granted, 'a'), '');
    await symlink('/etc/passwd', join(world.granted, 'z'));
    expect((await world.run('fs_list', { path: '.' })).output).toBe('a\nb/\nz -> /etc/passwd');
    expect((await world.run('fs_list', { path: '.', depth: 3 })).output).toBe(
      'a\nb/\nb/c/\nb/c/d/\nb/c/file\nz -> /etc/passwd',
    );
    expect(await world.run('fs_list', { path: '.', depth: 8, limit: 2 })).toEqual({
      ok: true,
      output: 'a\nb/\n[only the first 2 entries]',
      truncated: true,
    });
    expect(await world.run('fs_list', { path: 'a' })).toMatchObject({
      ok: false,
      output: 'a is no folder; fs_read reads files.',
    });
    expect((await world.run('fs_list', { path: 'b/c/d' })).output).toBe('[empty folder]');
    expect((await world.run('fs_list', { path: 'nothing' })).output).toBe(
      'nothing: there is no such file or folder.',
    );
  });

  it.skipIf(process.platform !== 'linux')('escapes misleading names', async () => {
    const world = await newWorld();
    await writeFile(Buffer.concat([Buffer.from(join(world.granted, 'bad')), Buffer.from([0xff, 0x0a])]), 'x');
    for (const name of ['new\nline', 'esc\u001b[31m', 'turn\u202etxt.exe'])
      await writeFile(join(world.granted, name), '');
    expect((await world.run('fs_list', { path: '.' })).output).toBe(
      'bad\\xff\\x0a\nesc\\u{1b}[31m\nnew\\u{a}line\nturn\\u{202e}txt.exe',
    );
    expect((await world.run('fs_search', { query: 'x' })).ok).toBe(true);
  });

  it('limits the entries of a very large folder', async () => {
    const world = await newWorld();
    const names = Array.from({ length: 3000 }, (_, index) => join(world.granted, `f${index}`));
    for (const name of names) await writeFile(name, '');
    const listed = await world.run('fs_list', { path: '.', limit: 1000 });
    expect(listed.truncated).toBe(true);
    expect(listed.output.split('\n')).toHaveLength(1001);
  });
});

describe('fs_read', () => {
  it('reads ranges of lines and says how to continue', async () => {
    const world = await newWorld();
    const text = Array.from({ length: 10 }, (_, index) => `line ${index + 1}`).join('\n');
    await writeFile(join(world.granted, 'file'), text);
    const read = (range: object) => world.run('fs_read', { path: 'file', ...range });
    expect(await read({})).toEqual({ ok: true, output: text, truncated: false });
    expect(await read({ start_line: 3, lines: 2 })).toEqual({
      ok: true,
      output: 'line 3\nline 4\n[lines 3 to 4; there is more: start_line 5]',
      truncated: true,
    });
    expect(await read({ start_line: 9, lines: 2 })).toEqual({
      ok: true,
      output: 'line 9\nline 10',
      truncated: false,
    });
    expect(await read({ start_line: 11 })).toEqual({
      ok: false,
      output: 'file has fewer than 11 lines.',
      truncated: false,
    });
    await writeFile(join(world.granted, 'file'), '');
    expect((await read({})).output).toBe('[empty file]');
  });

  it('gives every line of any text by ranges', async () => {
    const world = await newWorld();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '😀', '\r', ' '), maxLength: 5 }), {
          maxLength: 8,
        }),
        fc.integer({ min: 1, max: 4 }),
        async (parts, lines) => {
          const text = parts.join('\n');
          await writeFile(join(world.granted, 'file'), text);
          let all = '';
          for (let start = 1; ; ) {
            const { ok, output } = await world.run('fs_read', { path: 'file', start_line: start, lines });
            if (!ok || output === '[empty file]') break;
            const more = /\[lines \d+ to \d+; there is more: start_line (\d+)\]$/.exec(output);
            all += more ? output.slice(0, more.index) : output;
            if (!more) break;
            start = Number(more[1]);
          }
          expect(all).toBe(text);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('refuses binary files, and cuts long lines', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'nul'), 'a\0b');
    await writeFile(join(world.granted, 'latin'), Buffer.from([0x61, 0xe9, 0x61]));
    for (const path of ['nul', 'latin'])
      expect(await world.run('fs_read', { path })).toMatchObject({
        ok: false,
        output: `${path} is binary (or no UTF-8 text), so there is nothing to read in it.`,
      });
    await writeFile(join(world.granted, 'long'), '😀'.repeat(100_000));
    const long = await world.run('fs_read', { path: 'long' });
    expect(long.truncated).toBe(true);
    expect(long.output.length).toBeLessThan(40_000);
    expect(long.output.isWellFormed()).toBe(true);
  });

  it('reads the beginning of a file of a hundred gigabytes, and scans no further than the limit', async () => {
    const world = await newWorld();
    const path = join(world.granted, 'huge');
    await writeFile(path, `first\n${'x\n'.repeat(2000)}`);
    expect((await world.run('fs_read', { path, lines: 1 })).output).toBe(
      'first\n[lines 1 to 1; there is more: start_line 2]',
    );
    await truncate(path, 100 * 1024 ** 3); // sparse: NULs
    expect((await world.run('fs_read', { path, lines: 1 })).ok).toBe(false);
    const text = join(world.granted, 'text');
    await writeFile(text, 'y\n'.repeat(40 * 1024 * 1024));
    expect(await world.run('fs_read', { path: text, start_line: 9_999_999_9 })).toMatchObject({
      ok: false,
      output: expect.stringContaining('is larger than the first'),
    });
  });

  it('stops when its signal aborts', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'file'), 'text');
    const within = world.context({}, AbortSignal.abort(new Error('stopped')));
    await expect(world.run('fs_read', { path: 'file' }, within)).rejects.toThrow('stopped');
  });
});

describe('fs_search', () => {
  it('finds texts and expressions, by file and line', async () => {
    const world = await newWorld();
    await mkdir(join(world.granted, 'src'));
    await mkdir(join(world.granted, '.git'));
    await writeFile(join(world.granted, '.git', 'x'), 'needle');
    await writeFile(join(world.granted, 'src', 'a.ts'), 'one\ntwo needle\r\nNEEDLE 42\n');
    await writeFile(join(world.granted, 'b.md'), 'needle');
    await writeFile(join(world.granted, 'binary'), 'needle\0');
    const search = async (args: object) => (await world.run('fs_search', args)).output;
    expect(await search({ query: 'needle' })).toBe(
      'b.md:1: needle\nsrc/a.ts:2: two needle\n[1 binary, large or closed files were skipped]',
    );
    expect(await search({ query: 'needle', ignore_case: true, files: '*.ts' })).toBe(
      'src/a.ts:2: two needle\nsrc/a.ts:3: NEEDLE 42',
    );
    expect(await search({ query: '^NEE\\w+ \\d+$', regex: true, files: 'src/**/*.ts' })).toBe(
      'src/a.ts:3: NEEDLE 42',
    );
    expect(await search({ query: 'needle', path: 'src/a.ts' })).toBe('src/a.ts:2: two needle');
    expect(await search({ query: 'a.ts', files: '?.md' })).toBe('[no matches]');
    expect(await world.run('fs_search', { query: 'e', files: '*.ts', limit: 1 })).toEqual({
      ok: true,
      output: 'src/a.ts:1: one\n[there are more than 1 matches; narrow the search]',
      truncated: true,
    });
  });

  it('says what is wrong with an expression', async () => {
    const world = await newWorld();
    for (const query of ['(', '(?=a)', '(a)\\1', '((a{100}){100}){100}', '*'])
      expect(await world.run('fs_search', { query, regex: true }), query).toMatchObject({
        ok: false,
        output: expect.stringContaining('query: '),
      });
  });

  it('matches expressions in linear time that would backtrack endlessly', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'file'), `${'a'.repeat(5000)}!\n`.repeat(200));
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 1);
    for (const query of ['^(a+)+$', '(a|a)*b', '(.*)*x', '\\pL{900}é', '(?:a?){30}a{30}b'])
      expect((await world.run('fs_search', { query, regex: true })).ok).toBe(true);
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(0);
  });

  it('stops when its signal aborts', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'file'), 'text');
    const stopping = new AbortController();
    const searching = world.run('fs_search', { query: 'text' }, world.context({}, stopping.signal));
    stopping.abort(new Error('stopped'));
    await expect(searching).rejects.toThrow('stopped');
  });
});

describe('fs_write', () => {
  it('proposes a new file, and creates it with its folders when applied', async () => {
    const world = await newWorld();
    const proposal = await world.proposed('fs_write', { path: 'x/y/new.txt', content: 'one\ntwo\n' });
    const path = join(world.granted, 'x', 'y', 'new.txt');
    expect(proposal).toMatchObject({
      kind: 'file_write',
      intent: 'to test it',
      summary: `Create ${path} (8 bytes).`,
      path,
      baseHash: 'absent',
      risk: 'low',
      diff: `--- /dev/null\n+++ b${path}\n@@ -0,0 +1,2 @@\n+one\n+two\n`,
    });
    expect(await readdir(world.granted)).toEqual([]);
    expect(await world.apply('fs_write', proposal)).toMatchObject({ ok: true, output: `Created ${path}.` });
    expect(await readFile(path, 'utf8')).toBe('one\ntwo\n');
    expect(await readdir(join(world.granted, 'x', 'y'))).toEqual(['new.txt']);
  });

  it('replaces a whole file, and keeps its mode', async () => {
    const world = await newWorld();
    const path = join(world.granted, 'run.sh');
    await writeFile(path, 'old\n');
    await chmod(path, 0o4751);
    const proposal = await world.proposed('fs_write', { path: 'run.sh', content: 'new\n' });
    expect(proposal).toMatchObject({ risk: 'medium', summary: `Replace ${path} (4 bytes).` });
    expect(proposal.baseHash).toMatch(/^sha256:[0-9a-f]{64}$/);
    await world.apply('fs_write', proposal);
    expect(await readFile(path, 'utf8')).toBe('new\n');
    // Without the bit that lends rights.
    expect((await stat(path)).mode & 0o7777).toBe(0o751);
  });

  it('writes through a link within the grants to its target', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'real'), 'old');
    await symlink('real', join(world.granted, 'link'));
    await world.apply('fs_write', await world.proposed('fs_write', { path: 'link', content: 'new' }));
    expect((await lstat(join(world.granted, 'link'))).isSymbolicLink()).toBe(true);
    expect(await readFile(join(world.granted, 'real'), 'utf8')).toBe('new');
  });

  it('shows a diff that equals the applied change', async () => {
    const world = await newWorld();
    const line = fc.string({
      unit: fc.constantFrom('a', 'b', ' ', '\r', '-', '+', '\\', '@', 'é'),
      maxLength: 4,
    });
    const text = fc.array(line, { maxLength: 12 }).map((lines) => lines.join('\n'));
    await fc.assert(
      fc.asyncProperty(text, text, async (before, after) => {
        fc.pre(before !== after);
        const path = join(world.granted, 'file');
        await writeFile(path, before);
        const proposal = await world.proposed('fs_write', { path, content: after });
        expect(applyPatch(before, proposal.diff ?? '', { autoConvertLineEndings: false })).toBe(after);
        expect((await world.apply('fs_write', proposal)).ok).toBe(true);
        expect(await readFile(path, 'utf8')).toBe(after);
      }),
      { numRuns: 60 },
    );
  });

  it('shows a full replacement when the comparison would take too long', async () => {
    const world = await newWorld();
    const lines = (seed: number) => Array.from({ length: 9000 }, (_, index) => `${index * seed}`).join('\n');
    await writeFile(join(world.granted, 'file'), lines(3));
    const proposal = await world.proposed('fs_write', { path: 'file', content: lines(7) });
    expect(applyPatch(lines(3), proposal.diff ?? '')).toBe(lines(7));
  });

  it('refuses binary and huge files, and changes without effect', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'binary'), Buffer.from([1, 0, 255]));
    await writeFile(join(world.granted, 'huge'), 'x'.repeat(1024 * 1024 + 1));
    await writeFile(join(world.granted, 'same'), 'same');
    const refusal = async (args: object) => {
      const answer = await world.propose('fs_write', args);
      return 'ok' in answer ? answer.output : 'proposed';
    };
    expect(await refusal({ path: 'binary', content: 'x' })).toContain('binary is binary');
    expect(await refusal({ path: 'huge', content: 'x' })).toContain('is larger than the 1048576 bytes');
    expect(await refusal({ path: 'new', content: 'é'.repeat(600_000) })).toContain(
      'would have 1200000 bytes',
    );
    expect(await refusal({ path: 'new', content: 'a\0' })).toContain('NUL');
    expect(await refusal({ path: 'same', content: 'same' })).toBe('same holds exactly this text already.');
    expect(await refusal({ path: '.', content: 'x' })).toContain('is a folder');
    expect(await refusal({ path: 'same/below', content: 'x' })).toContain('no folder');
    expect(await refusal({ path: join(world.shown, 'new'), content: 'x' })).toContain('granted for writing');
  });

  it('is applied only to the base that it was proposed for', async () => {
    const world = await newWorld();
    const path = join(world.granted, 'file');
    const moved = { name: 'AgentError', kind: 'conflict', code: 'base_moved' };
    const created = await world.proposed('fs_write', { path, content: 'first' });
    await writeFile(path, 'somebody else');
    await expect(world.apply('fs_write', created)).rejects.toMatchObject(moved);
    expect(await readFile(path, 'utf8')).toBe('somebody else');
    const replaced = await world.proposed('fs_write', { path, content: 'second' });
    await rm(path);
    await expect(world.apply('fs_write', replaced)).rejects.toMatchObject(moved);
    await mkdir(path);
    await expect(world.apply('fs_write', replaced)).rejects.toMatchObject(moved);
    await rm(path, { recursive: true });
    await symlink(join(world.outside, 'far'), path);
    await expect(world.apply('fs_write', replaced)).rejects.toMatchObject(moved);
    await expect(world.apply('fs_write', created)).rejects.toMatchObject(moved);
    expect(await readdir(world.outside)).toEqual([]);
    await rm(world.granted, { recursive: true });
    await symlink(world.outside, world.granted);
    await expect(world.apply('fs_write', created)).rejects.toMatchObject(moved);
    expect(await readdir(world.outside)).toEqual([]);
  });

  it('succeeds once for two changes with the same base, even concurrently', async () => {
    const world = await newWorld();
    for (const before of [undefined, 'old']) {
      const path = join(world.granted, `file-${before ?? 'none'}`);
      if (before !== undefined) await writeFile(path, before);
      const texts = ['one', 'two', 'three'];
      const proposals = await Promise.all(
        texts.map((content) => world.proposed('fs_write', { path, content })),
      );
      const results = await Promise.allSettled(proposals.map((one) => world.apply('fs_write', one)));
      expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
      const winner = texts[results.findIndex(({ status }) => status === 'fulfilled')];
      expect(await readFile(path, 'utf8')).toBe(winner);
      expect((await readdir(world.granted)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    }
  });
});

describe('fs_edit', () => {
  it('replaces texts that occur once, in order', async () => {
    const world = await newWorld();
    const path = join(world.granted, 'file');
    await writeFile(path, 'one\r\ntwo\r\nthree\r\n');
    const edits = [
      { old_text: 'one\ntwo', new_text: 'eins\nzwei' },
      { old_text: 'zwei', new_text: '$& deux' },
    ];
    const proposal = await world.proposed('fs_edit', { path, edits });
    expect(proposal).toMatchObject({ kind: 'file_write', risk: 'medium' });
    await world.apply('fs_edit', proposal);
    expect(await readFile(path, 'utf8')).toBe('eins\r\n$& deux\r\nthree\r\n');
  });

  it('reports for every mismatching edit how often its text occurs', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'file'), 'aaa b');
    const edits = ['aa', 'b', 'c', ''].map((text) => ({ old_text: text, new_text: 'x' }));
    expect(await world.propose('fs_edit', { path: 'file', edits })).toMatchObject({
      ok: false,
      output:
        'Nothing was changed. edits[0].old_text occurs 2 times; take in more of the text around it until it occurs once. edits[2].old_text does not occur; read the file again and copy the text exactly. edits[3].old_text is empty; give the text that is to be replaced.',
    });
    expect(await world.propose('fs_edit', { path: 'none', edits })).toMatchObject({
      ok: false,
      output: 'none: there is no such file; fs_write makes new ones.',
    });
  });

  it('conflicts after another change of the file was applied', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'file'), 'a b');
    const [first, second] = await Promise.all(
      ['a', 'b'].map((text) =>
        world.proposed('fs_edit', { path: 'file', edits: [{ old_text: text, new_text: 'x' }] }),
      ),
    );
    if (!first || !second) throw new Error('not proposed');
    await world.apply('fs_edit', first);
    await expect(world.apply('fs_edit', second)).rejects.toMatchObject({ code: 'base_moved' });
    expect(await readFile(join(world.granted, 'file'), 'utf8')).toBe('x b');
  });
});

describe('fs_delete', () => {
  it('deletes a file and shows its content before', async () => {
    const world = await newWorld();
    const path = join(world.granted, 'file');
    await writeFile(path, 'gone\n');
    const proposal = await world.proposed('fs_delete', { path });
    expect(proposal).toMatchObject({
      kind: 'file_delete',
      risk: 'high',
      summary: `Delete the file (5 bytes) ${path}.`,
      diff: `--- a${path}\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-gone\n`,
    });
    await writeFile(path, 'changed');
    await expect(world.apply('fs_delete', proposal)).rejects.toMatchObject({ code: 'base_moved' });
    await writeFile(path, 'gone\n');
    expect(await world.apply('fs_delete', proposal)).toMatchObject({ ok: true, output: `Deleted ${path}.` });
    await expect(world.apply('fs_delete', proposal)).rejects.toMatchObject({ code: 'base_moved' });
  });

  it('deletes binary files and empty folders, and nothing else', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'binary'), Buffer.from([0, 1]));
    await mkdir(join(world.granted, 'folder'));
    await symlink('binary', join(world.granted, 'link'));
    expect(await world.propose('fs_delete', { path: 'link' })).toMatchObject({
      ok: false,
      output: 'link is a link; only files and empty folders can be deleted.',
    });
    const binary = await world.proposed('fs_delete', { path: 'binary' });
    expect(binary.diff).toBeUndefined();
    const folder = await world.proposed('fs_delete', { path: 'folder' });
    await writeFile(join(world.granted, 'folder', 'file'), '');
    await expect(world.apply('fs_delete', folder)).rejects.toMatchObject({ code: 'base_moved' });
    expect(await world.propose('fs_delete', { path: 'folder' })).toMatchObject({
      ok: false,
      output: 'folder is a folder that is not empty; delete what is in it first.',
    });
    await rm(join(world.granted, 'folder', 'file'));
    await world.apply('fs_delete', folder);
    await world.apply('fs_delete', binary);
    expect(await readdir(world.granted)).toEqual(['link']);
  });
});

describe('the risk of a change', () => {
  it.each([
    ['.git/hooks/pre-commit', '#!/bin/sh', 'git runs it'],
    ['.bashrc', 'x', 'a shell runs it when it starts'],
    ['.ssh/authorized_keys', 'ssh-ed25519 AAAA', 'it decides who may log in, and what runs then'],
    ['.vscode/tasks.json', '{}', 'an editor runs what it names'],
    ['.github/workflows/ci.yml', 'on: push', 'CI runs it'],
    ['package.json', '{"scripts":{"postinstall":"x"}}', 'npm runs its scripts'],
    ['.git/config', '[core]\nsshCommand = x', 'git runs programs that it names'],
    ['sub/Makefile', 'all:', 'build and test tools run it'],
  ])('of %s is high, with the reason', async (name, content, reason) => {
    const world = await newWorld();
    const proposal = await world.proposed('fs_write', { path: join(world.granted, name), content });
    expect(proposal).toMatchObject({
      risk: 'high',
      summary: expect.stringMatching(new RegExp(`\\(\\d+ bytes\\)\\. High risk: ${reason}\\.$`)) as string,
    });
  });

  it.each([
    ['package.json', '{"version":"2"}'],
    ['.git/hooks/pre-commit.sample', 'x'],
    ['.git/config', '[core]\nbare = false'],
    ['src/makefile.ts', 'x'],
    ['notes.md', 'x'],
  ])('of %s is not, where nothing in it runs', async (name, content) => {
    const world = await newWorld();
    const proposal = await world.proposed('fs_write', { path: join(world.granted, name), content });
    expect(proposal.risk).toBe('low');
  });

  it('counts only what changes', async () => {
    const world = await newWorld();
    const path = join(world.granted, 'package.json');
    await writeFile(path, '{"scripts":{"test":"vitest"},"version":"1"}');
    const edit = (old_text: string, new_text: string) =>
      world.proposed('fs_edit', { path, edits: [{ old_text, new_text }] });
    expect((await edit('"1"', '"2"')).risk).toBe('medium');
    expect((await edit('vitest', 'curl evil.test')).risk).toBe('high');
  });
});
