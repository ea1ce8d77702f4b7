/** File tools with staging: exactly the shown change is applied, and only to the base it was shown for. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { AgentError } from '../../src/agent/errors.ts';
import { fsDelete } from '../../src/agent/tools/builtin/fs-delete.ts';
import { fsWrite } from '../../src/agent/tools/builtin/fs-write.ts';
import { FileChanges } from '../../src/agent/tools/builtin/staged-file.ts';
import { Confinement } from '../../src/agent/tools/paths/confinement.ts';
import { describeDatabases } from '../support/databases.ts';
import { context, pendingHosts } from '../support/pending-world.ts';

const never = new AbortController().signal;

describeDatabases('staged changes of files', (url) => {
  const { host } = pendingHosts();

  async function world() {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'lathe-staged-')));
    const confinement = new Confinement([]);
    const files = new FileChanges(confinement);
    const tools = [fsWrite(confinement, files), fsDelete(confinement, files)];
    const { changes } = await host(await url(), { tools });
    const about = context({
      grants: { tools: ['*'], read: [], write: [folder], network: [], auto_approve: [] },
    });
    const stage = async (name: string, args: Record<string, unknown>) => {
      const tool = tools.find((one) => one.name === name);
      const proposal = await tool?.propose({ intent: 'because', ...args }, about);
      if (!tool || !proposal || !('payload' in proposal)) throw new Error(JSON.stringify(proposal));
      return await changes.stage(tool, proposal, about);
    };
    const refusal = async (id: string) =>
      await changes.approve(id, 'operator', never).then(
        () => undefined,
        (error: unknown) => (error as AgentError).code,
      );
    return { folder, changes, stage, refusal };
  }

  it('are written, replaced and deleted as they were shown', async () => {
    const { folder, changes, stage } = await world();
    const path = join(folder, 'deep/notes.md');
    const made = await stage('fs_write', { path, content: 'one\ntwo\n' });
    expect(made).toMatchObject({ kind: 'file_write', path, base_hash: 'absent', intent: 'because' });
    expect(made.diff).toContain('+one\n+two\n');
    expect(existsSync(path)).toBe(false);
    await changes.approve(made.id, 'operator', never);
    expect(readFileSync(path, 'utf8')).toBe('one\ntwo\n');
    const next = await stage('fs_write', { path, content: 'one\n2\n' });
    expect(next.diff).toContain('-two\n+2\n');
    await changes.approve(next.id, 'operator', never);
    expect(readFileSync(path, 'utf8')).toBe('one\n2\n');
    const gone = await stage('fs_delete', { path });
    await changes.approve(gone.id, 'operator', never);
    expect(existsSync(path)).toBe(false);
  });

  it('are refused and stay staged when the file or its path has changed', async () => {
    const { folder, changes, stage, refusal } = await world();
    const path = join(folder, 'a.txt');
    writeFileSync(path, 'base');
    const written = await stage('fs_write', { path, content: 'mine' });
    const deleted = await stage('fs_delete', { path });
    const made = await stage('fs_write', { path: join(folder, 'sub/new.txt'), content: 'x' });
    writeFileSync(path, 'theirs');
    const outside = mkdtempSync(join(tmpdir(), 'lathe-outside-'));
    symlinkSync(outside, join(folder, 'sub'));
    expect(await refusal(written.id)).toBe('base_moved');
    expect(await refusal(deleted.id)).toBe('base_moved');
    expect(['base_moved', 'apply_failed']).toContain(await refusal(made.id));
    expect(readFileSync(path, 'utf8')).toBe('theirs');
    expect(existsSync(join(outside, 'new.txt'))).toBe(false);
    expect(await changes.list()).toHaveLength(3);
    writeFileSync(path, 'base');
    expect(await refusal(written.id)).toBeUndefined();
    expect(await refusal(deleted.id)).toBe('base_moved');
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  it('report a folder in place of the file, and are applied when it is gone', async () => {
    const { folder, changes, stage, refusal } = await world();
    const path = join(folder, 'a.txt');
    const { id } = await stage('fs_write', { path, content: 'x' });
    mkdirSync(path);
    expect(await refusal(id)).toBeDefined();
    expect(await changes.get(id)).toMatchObject({ state: 'staged' });
  });
});
