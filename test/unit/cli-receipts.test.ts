import { generateKeyPairSync } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ReceiptChain } from '../../src/agent/receipts/receipt-chain.ts';
import type { WorkReceipt } from '../../src/agent/shapes/receipt.ts';
import { openDataDir } from '../../src/cli/data-dir.ts';
import { rawPublicKey } from '../../src/signing/ed25519.ts';
import { loadHostKey } from '../../src/signing/host-key.ts';
import { Store } from '../../src/store/index.ts';
import { commandLines } from '../support/command-lines.ts';
import { repository } from '../support/host.ts';

const folder = await mkdtemp(join(tmpdir(), 'lathe-cli-receipts-'));
afterAll(() => rm(folder, { recursive: true }));
const lathe = commandLines(folder);
const publicOf = (key: Parameters<typeof rawPublicKey>[0]) => rawPublicKey(key).toString('base64');
const strangerKey = publicOf(generateKeyPairSync('ed25519').publicKey);
/** Where no host has been. */
const elsewhere = { LATHE_DATA_DIR: join(folder, 'elsewhere') };

async function withStore<T>(work: (store: Store) => Promise<T>): Promise<T> {
  const { path, endpointId } = await openDataDir(join(folder, 'data'));
  const store = await Store.open({ url: `sqlite:${join(path, 'lathe.db')}`, endpointId });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

let receipts: WorkReceipt[] = [];
let keyId = '';
let ownKey = '';
beforeAll(async () => {
  const { path } = await openDataDir(join(folder, 'data'));
  const key = await loadHostKey(path);
  keyId = key.keyId;
  ownKey = publicOf(key.publicKey);
  const body = { kind: 'task', outcome: 'completed', started_at: '2030-01-01T00:00:00.000Z' } as const;
  receipts = await withStore(async (store) => {
    const chain = new ReceiptChain({ store, key });
    const made: WorkReceipt[] = [];
    for (const id of ['t1', 't2', 't3'])
      made.push(await store.transaction((tx) => chain.add(tx, { ...body, id, ended_at: body.started_at })));
    return made;
  });
});

async function saved(name: string, value: unknown): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, typeof value === 'string' ? value : JSON.stringify(value, undefined, 2));
  return file;
}

describe('receipts verify FILE', () => {
  it("judges one receipt by the data directory's own key, or by one that is named, anywhere", async () => {
    const file = await saved('second.json', receipts[1]);
    const words = `receipt 2 is genuine: task t2, completed, signed by ${keyId}\n`;
    expect(await lathe(['receipts', 'verify', file])).toEqual({ stdout: words, stderr: '', code: 0 });
    const named = await lathe(['receipts', 'verify', file, '--key', ownKey], elsewhere);
    expect(named).toEqual({ stdout: words, stderr: '', code: 0 });
    const { stdout } = await lathe(['receipts', 'verify', file, '--json']);
    expect(JSON.parse(stdout)).toEqual({ ok: true, id: 't2', seq: 2, key_id: keyId });
  });

  it('says what is wrong with one that was changed, or signed by somebody else', async () => {
    const changed = await saved('changed.json', { ...receipts[1], outcome: 'failed' });
    const { stdout, stderr, code } = await lathe(['receipts', 'verify', changed, '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ ok: false, reason: /digest/ });
    expect(stderr).toContain(
      `the receipt in ${changed} is not genuine: its members differ from the signed ones`,
    );
    expect(code).toBe(1);
    const file = await saved('second.json', receipts[1]);
    const other = await lathe(['receipts', 'verify', file, '--key', strangerKey]);
    expect(other.stderr).toContain(`it is signed by ${keyId}, not by ed25519:`);
    expect([other.stdout, other.code]).toEqual(['', 1]);
  });

  it.each([
    ['no file', ['/none/there.json', '--key', strangerKey], 'cannot read the receipt /none/there.json'],
    ['no key of 32 bytes', ['FILE', '--key', 'c2hvcnQ='], '--key: expected the base64 of 32 bytes'],
    ['no key at all', ['FILE'], 'there is no host.key in'],
    ['no JSON', ['TEXT', '--key', strangerKey], 'is not JSON'],
    ['no receipt', ['LIST', '--key', strangerKey], 'it is not a JSON object'],
  ])('refuses %s in one line', async (_, words, message) => {
    const files: Readonly<Record<string, unknown>> = { FILE: receipts[0], TEXT: 'no', LIST: [] };
    const args: string[] = [];
    for (const word of words)
      args.push(Object.hasOwn(files, word) ? await saved(`${word}.json`, files[word]) : word);
    const { stdout, stderr, code } = await lathe(['receipts', 'verify', ...args], elsewhere);
    expect(stderr).toContain(message);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect([stdout, code]).toEqual(['', 1]);
  });
});

it('docs/receipts.md says what is signed: its program verifies a receipt', async () => {
  const [, program = ''] =
    /```js\n([^]*?)```/.exec(readFileSync(join(repository, 'docs/receipts.md'), 'utf8')) ?? [];
  const path = await saved('verify.mjs', program);
  const judge = (file: string, key: string) => execFileSync(process.execPath, [path, file, key]).toString();
  for (const receipt of receipts) expect(judge(await saved('one.json', receipt), ownKey)).toBe('genuine\n');
  expect(judge(await saved('one.json', receipts[0]), strangerKey)).toBe('not genuine\n');
  expect(judge(await saved('one.json', { ...receipts[0], extra: 1 }), ownKey)).toBe('not genuine\n');
});

describe('receipts verify', () => {
  it('writes nothing, and fails without the identity of the host', async () => {
    const path = join(folder, 'data');
    const photograph = () =>
      readdirSync(path)
        .toSorted()
        .map((name) => [name, readFileSync(join(path, name), 'base64'), statSync(join(path, name)).mtimeMs]);
    const before = photograph();
    expect((await lathe(['receipts', 'verify'])).code).toBe(0);
    expect(photograph()).toEqual(before);
    const id = join(path, 'endpoint-id');
    renameSync(id, `${id}.gone`);
    const without = photograph();
    const { stdout, stderr, code } = await lathe(['receipts', 'verify']);
    expect([stdout, code]).toEqual(['', 1]);
    expect(stderr).toContain(`there is no endpoint-id in ${path}`);
    expect(photograph()).toEqual(without);
    renameSync(`${id}.gone`, id);
    expect((await lathe(['receipts', 'verify'], elsewhere)).code).toBe(1);
    expect(existsSync(elsewhere.LATHE_DATA_DIR)).toBe(false);
  });

  it('finds a whole chain in order, and where a broken one is broken', async () => {
    const whole = await lathe(['receipts', 'verify']);
    expect(whole).toEqual({ stdout: `3 receipts, all valid, signed by ${keyId}\n`, stderr: '', code: 0 });
    const stranger = await lathe(['receipts', 'verify', '--key', strangerKey]);
    expect(stranger.stderr).toContain('the chain of receipts is broken at receipt 1: it is signed by');
    const tamper = (receipt: object) =>
      withStore((store) =>
        store.transaction((tx) =>
          tx
            .updateTable('receipts')
            .set({ receipt: JSON.stringify(receipt) })
            .where('seq', '=', 2)
            .execute(),
        ),
      );
    await tamper({ ...receipts[1], outcome: 'failed' });
    const broken = await lathe(['receipts', 'verify', '--json']);
    expect(JSON.parse(broken.stdout)).toMatchObject({ ok: false, receipts: 1, first_bad: 2, key_id: keyId });
    expect(broken.stderr).toContain('the chain of receipts is broken at receipt 2');
    expect(broken.code).toBe(1);
    await tamper(receipts[1] as WorkReceipt);
    expect((await lathe(['receipts', 'verify'])).code).toBe(0);
    await withStore((store) =>
      store.transaction((tx) => tx.deleteFrom('receipts').where('seq', '=', 3).execute()),
    );
    expect((await lathe(['receipts', 'verify'])).stderr).toContain('the last ones are missing');
  });

  it('tells a data directory that no host has used, and makes no key in it', async () => {
    const { stderr, code } = await lathe(['receipts', 'verify'], elsewhere);
    expect(stderr).toContain(
      `there is no database ${join(elsewhere.LATHE_DATA_DIR, 'lathe.db')}: no host has used it`,
    );
    expect(code).toBe(1);
  });
});
