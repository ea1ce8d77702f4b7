/** `pull` and `models list|show|rm|verify` as processes, on real files: whole, cut, changed, half there, of every format. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { pull } from '../../src/pull/pull.ts';
import { fakeHub } from '../support/fake-hub.ts';
import { folderContents } from '../support/folder-contents.ts';
import { splitGguf } from '../support/gguf-split-writer.ts';
import { type GgufFile, ggufBytes, text } from '../support/gguf-writer.ts';
import { freshDataDir, startScriptedHost, startSource } from '../support/host.ts';
import { mlcFolder } from '../support/mlc-writer.ts';
import { modelsPath } from '../support/shared.ts';
import { runsRest } from '../support/tier.ts';

const face = fileURLToPath(new URL('../fixtures/architectures/qwen2/hf', import.meta.url));
const tiny = readFileSync(modelsPath('lathe-tiny-q8_0.gguf'));

/** A data directory with these files below its `models`. */
const dataDirOf = (files: Readonly<Record<string, Uint8Array>>): string => {
  const folder = freshDataDir();
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(join(folder, 'models', dirname(path)), { recursive: true });
    writeFileSync(join(folder, 'models', path), bytes);
  }
  return folder;
};
const left = (folder: string): string[] =>
  readdirSync(join(folder, 'models'), { recursive: true }).map(String).sort();

const run = async (folder: string, ...args: string[]) => {
  const host = startScriptedHost(['models', ...args, '--data-dir', folder]);
  const { code } = await host.exit;
  return { code, ...host.output };
};
const runJson = async (folder: string, ...args: string[]) => {
  const { code, stdout, stderr } = await run(folder, ...args, '--json');
  return { code, stderr, entries: JSON.parse(stdout) as Record<string, unknown>[] };
};
const lineOf = (output: string, name: string): string =>
  output.split('\n').find((line) => line.startsWith(`${name} `)) ?? '';

const other: GgufFile = {
  metadata: [['general.architecture', text('rwkv')]],
  tensors: [{ name: 'w', type: 'F32', shape: [2, 2], data: () => new Uint8Array(16) }],
};

describe('models list', () => {
  test('shows every format, and what cannot be used with the reason', async () => {
    const folder = dataDirOf({
      'owner--tiny/tiny-Q8_0.gguf': tiny,
      'o--cut/cut.gguf': tiny.subarray(0, 300_000),
      'o--half/half.gguf.part': tiny.subarray(0, 1000),
      'o--half/half.gguf.part.json': new Uint8Array(2),
      'o--strange/strange.gguf': ggufBytes(other),
      'o--web/page.gguf': new TextEncoder().encode('<!doctype html><title>Sign in</title>'),
      'o--split/big-00002-of-00003.gguf':
        splitGguf('x', other, 3)['x-00002-of-00003.gguf'] ?? new Uint8Array(),
    });
    cpSync(face, join(folder, 'models', 'o--face'), { recursive: true });
    const mlc = mlcFolder(folderContents(face), { quantization: 'q4f16_1' });
    for (const [name, bytes] of Object.entries(mlc)) {
      mkdirSync(join(folder, 'models', 'o--mlc'), { recursive: true });
      writeFileSync(join(folder, 'models', 'o--mlc', name), bytes);
    }
    const { code, stdout } = await run(folder, 'list');
    expect(code).toBe(0);
    expect(stdout.split('\n')[0]).toMatch(
      /^NAME +ARCHITECTURE +PARAMETERS +QUANTIZATION +SIZE +CONTEXT +REMARK$/,
    );
    expect(lineOf(stdout, 'lathe-tiny')).toMatch(/llama +3\.7M +Q8_0 +3\.8 MiB +1024 +embedded$/);
    expect(lineOf(stdout, 'owner--tiny/tiny-Q8_0')).toMatch(/llama +3\.7M +Q8_0 +3\.8 MiB +1024$/);
    expect(lineOf(stdout, 'o--face')).toMatch(/qwen2 +\S+ +BF16 .* 256$/);
    expect(lineOf(stdout, 'o--mlc')).toMatch(/qwen2 +\S+ +Q4_0 .* 256$/);
    expect(lineOf(stdout, 'o--cut/cut')).toMatch(/unusable: .*download it again/);
    expect(lineOf(stdout, 'o--half/half')).toMatch(/unusable: the download is incomplete .*pull it again/);
    expect(lineOf(stdout, 'o--strange/strange')).toMatch(/rwkv .*unusable: .*unknown architecture 'rwkv'/);
    expect(lineOf(stdout, 'o--web/page')).toMatch(/unusable: .*a web page/);
    expect(lineOf(stdout, 'o--split/big')).toMatch(
      /unusable: .*2 of the 3 parts .*00001-of-00003\.gguf, .*00003-of-00003/,
    );
    const { entries } = await runJson(folder, 'list');
    expect(entries.map(({ name }) => name)).toEqual([
      'lathe-tiny',
      'o--cut/cut',
      'o--face',
      'o--half/half',
      'o--mlc',
      'o--split/big',
      'o--strange/strange',
      'o--web/page',
      'owner--tiny/tiny-Q8_0',
    ]);
    expect(entries.at(-1)).toMatchObject({
      architecture: 'llama',
      parameters: 3_672_320,
      size_bytes: tiny.length,
    });
    expect(entries[1]).toMatchObject({ problem: expect.stringContaining('300000 bytes') });
  });

  test('takes no name, and says which commands there are', async () => {
    const wrong = await run(freshDataDir(), 'lst');
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("did you mean 'models list'?") });
  });
});

describe('models show', () => {
  test('tells all that a header tells, of pulled models, paths and the embedded one', async () => {
    const folder = dataDirOf({ 'owner--tiny/tiny-Q8_0.gguf': tiny });
    const { code, stdout } = await run(folder, 'show', 'tiny-q8_0');
    expect(code).toBe(0);
    for (const line of [
      /^owner--tiny\/tiny-Q8_0$/m,
      /^architecture +llama$/m,
      /^memory +13\.3 MiB for a sequence of 1024 tokens$/m,
      /^tokenizer +gpt2, 2048 tokens$/m,
      /^chat template +yes$/m,
      /^digest +not computed yet \(models verify computes and stores it\)$/m,
      /^ +Q8_0 +29 +3\.7M/m,
    ])
      expect(stdout).toMatch(line);
    const others = ['lathe-tiny', face].map((name) => run(folder, 'show', name));
    for (const elsewhere of await Promise.all(others)) {
      expect(elsewhere.code).toBe(0);
      expect(elsewhere.stdout).toMatch(
        /^digest +not stored for models outside the data directory \(models verify prints it\)$/m,
      );
    }
    const wrong = await run(folder, 'show', 'tiny-q8');
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining("did you mean 'tiny-Q8_0'?") });
  });

  test('names the model that cannot be read, and why', async () => {
    const folder = dataDirOf({ 'o--cut/cut.gguf': tiny.subarray(0, 40_000) });
    const { code, stderr } = await run(folder, 'show', 'cut');
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^lathe: cannot read 'o--cut\/cut': .*the file ends at byte 40000.*download it again\n$/,
    );
  });
});

describe('models rm', () => {
  test('deletes all parts of a model, folders that are empty then, and nothing else', async () => {
    const parts = splitGguf('q/big', other, 3);
    const folder = dataDirOf({
      ...Object.fromEntries(Object.entries(parts).map(([name, bytes]) => [`o--many/${name}`, bytes])),
      'o--many/tiny.gguf': tiny,
      'o--half/half.gguf.part': new Uint8Array(2048),
      'o--half/half.gguf.part.json': new Uint8Array(2),
    });
    cpSync(face, join(folder, 'models', 'o--face'), { recursive: true });
    expect((await run(folder, 'rm', 'big')).stdout).toMatch(
      /^removed o--many\/q\/big: 3 files, \d+ B freed\n$/,
    );
    expect((await run(folder, 'rm', 'half')).stdout).toMatch(
      /^removed o--half\/half: 1 file, 2\.0 KiB freed\n$/,
    );
    expect((await run(folder, 'rm', 'o/face')).code).toBe(0);
    expect(left(folder)).toEqual(['o--many', 'o--many/tiny.gguf']);
    const wrong = await run(folder, 'rm', 'tinny');
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toMatch(/no pulled model 'tinny' \(did you mean 'tiny'\?\)/);
    // Only what was pulled can be removed, whatever path is named.
    const paths = [modelsPath('lathe-tiny-q8_0.gguf'), '../../x', 'lathe-tiny'];
    for (const { code } of await Promise.all(paths.map((path) => run(folder, 'rm', path))))
      expect(code).toBe(1);
    expect(existsSync(modelsPath('lathe-tiny-q8_0.gguf'))).toBe(true);
  });

  test('asks which one is meant when several are called so', async () => {
    const folder = dataDirOf({ 'a--x/m.gguf': tiny, 'b--x/m.gguf': tiny });
    const { code, stderr } = await run(folder, 'rm', 'm');
    expect(code).toBe(1);
    expect(stderr).toContain("'m' matches several pulled models: a--x/m, b--x/m");
    expect(left(folder)).toContain('a--x/m.gguf');
  });
});

describe('models verify', () => {
  test('compares with the checksums of the pull, and finds what was changed, cut or left half there', async () => {
    const folder = freshDataDir();
    const destination = join(folder, 'models');
    const small = (path: string) => ({
      path,
      content: new Uint8Array(readFileSync(join(face, path))),
      small: true,
    });
    const hub = await fakeHub('o/face', [
      { path: 'model.safetensors', content: new Uint8Array(readFileSync(join(face, 'model.safetensors'))) },
      ...['config.json', 'tokenizer.json', 'tokenizer_config.json'].map(small),
    ]);
    await pull({ repo: 'o/face', destination, endpoint: hub.url });
    const tinyHub = await fakeHub('o/tiny', [{ path: 'tiny-Q8_0.gguf', content: new Uint8Array(tiny) }]);
    await pull({ repo: 'o/tiny', destination, endpoint: tinyHub.url });
    await Promise.all([hub.close(), tinyHub.close()]);

    const good = await run(folder, 'verify');
    expect(good).toMatchObject({ code: 0, stderr: '' });
    expect(lineOf(good.stdout, 'o--face')).toMatch(
      /ok +sha256:[0-9a-f]{64} +checksums of 4 of 4 files, all tensors complete and finite$/,
    );
    expect(lineOf(good.stdout, 'o--tiny/tiny-Q8_0')).toMatch(/ +checksums of 1 of 1 files/);
    const [digest = ''] = /sha256:\w{64}/.exec(lineOf(good.stdout, 'o--tiny/tiny-Q8_0')) ?? [];
    expect((await run(folder, 'show', 'tiny-q8_0')).stdout).toMatch(new RegExp(`^digest +${digest}$`, 'm'));

    // One bit of a weight: nothing but the checksum can tell.
    const changed = Uint8Array.from(tiny);
    changed[3_000_001] = (changed[3_000_001] ?? 0) ^ 1;
    writeFileSync(join(destination, 'o--tiny', 'tiny-Q8_0.gguf'), changed);
    writeFileSync(join(destination, 'o--face', 'tokenizer.json'), 'x');
    mkdirSync(join(destination, 'o--half'));
    writeFileSync(join(destination, 'o--half', 'half.gguf.part'), new Uint8Array(10));
    const { code, entries, stderr } = await runJson(folder, 'verify');
    expect(code).toBe(1);
    expect(stderr).toBe('lathe: 3 of 3 models are bad: o--face, o--half/half, o--tiny/tiny-Q8_0\n');
    const problems = Object.fromEntries(entries.map(({ name, problems: found }) => [name, String(found)]));
    expect(problems['o--face']).toMatch(/tokenizer\.json has 1 bytes, expected \d+; pull the model again/);
    expect(problems['o--half/half']).toMatch(/half\.gguf\.part is incomplete; pull it again/);
    expect(problems['o--tiny/tiny-Q8_0']).toMatch(
      /does not match its sha256 \(expected [0-9a-f]{64}, got [0-9a-f]{64}\)/,
    );
    expect((await run(folder, 'verify', 'o/tiny/tiny-q8_0')).code).toBe(1);
    expect((await run(folder, 'show', 'tiny-q8_0')).stdout).toMatch(/^digest +not computed yet/m);
  });

  test('of an MLC folder compares the shards with its own checksums', async () => {
    const contents = mlcFolder(folderContents(face), { quantization: 'q4f16_1' });
    const folder = dataDirOf(
      Object.fromEntries(Object.entries(contents).map(([name, bytes]) => [`o--mlc/${name}`, bytes])),
    );
    expect((await run(folder, 'verify', 'o--mlc')).code).toBe(0);
    const shard = Uint8Array.from(contents['params_shard_0.bin'] ?? []);
    shard[0] = 0x11;
    writeFileSync(join(folder, 'models', 'o--mlc', 'params_shard_0.bin'), shard);
    const { code, stdout } = await run(folder, 'verify', 'o--mlc');
    expect(code).toBe(1);
    expect(stdout).toMatch(/params_shard_0\.bin does not match its md5/);
  });

  test.runIf(runsRest)(
    'keeps the digest of what was copied by hand, for as long as the files are the same',
    async () => {
      const folder = dataDirOf({ 'o--x/tiny.gguf': tiny, 'top.gguf': tiny });
      cpSync(face, join(folder, 'models', 'o--face'), { recursive: true });
      const { entries } = await runJson(folder, 'verify');
      const digests = Object.fromEntries(entries.map(({ name, digest }) => [name, digest]));
      expect(digests['o--x/tiny']).toMatch(/^sha256:[0-9a-f]{64}$/);
      expect(digests['top']).toBe(digests['o--x/tiny']);
      const shown = async (name: string) =>
        /^digest +(.*)$/m.exec((await run(folder, 'show', name)).stdout)?.[1] ?? 'no line';
      const digestEntries = Object.keys(digests).map(async (name) => [name, await shown(name)] as const);
      expect(Object.fromEntries(await Promise.all(digestEntries))).toEqual(digests);

      // The same content, written again: only reading it can show that it is the same.
      writeFileSync(join(folder, 'models', 'top.gguf'), tiny);
      expect(await shown('top')).toMatch(/^not computed yet/);
      expect(await shown('o/x')).toBe(digests['o--x/tiny']);
      await run(folder, 'rm', 'o/x');
      expect((await run(folder, 'rm', 'top')).code).toBe(0);
      expect(left(folder).filter((path) => !path.startsWith('o--face'))).toEqual([]);
    },
  );

  test.runIf(runsRest)(
    'without checksums finds what is cut and what is no number, also at a path',
    async () => {
      const infinite = Uint8Array.from(tiny);
      // Wherever the blocks lie, some of these are scales.
      infinite.fill(0xff, infinite.length - 1_000_000, infinite.length - 999_000);
      const folder = dataDirOf({
        'o--cut/cut.gguf': tiny.subarray(0, 1_000_000),
        'o--x/good.gguf': tiny,
        'o--x/nan.gguf': infinite,
      });
      const { code, stdout } = await run(folder, 'verify');
      expect(code).toBe(1);
      expect(lineOf(stdout, 'o--cut/cut')).toMatch(/BAD .*download it again/);
      expect(lineOf(stdout, 'o--x/nan')).toMatch(
        /BAD +- +tensor 'blk\.\d\.\w+\.weight' has a value that is not finite \(row \d+\)/,
      );
      expect(lineOf(stdout, 'o--x/good')).toMatch(
        /ok +sha256:[0-9a-f]{64} +no checksums known, all tensors complete and finite/,
      );
      expect((await run(folder, 'verify', modelsPath('lathe-tiny-q8_0.gguf'))).code).toBe(0);
      expect((await run(freshDataDir(), 'verify')).stdout).toBe('no pulled models\n');
    },
  );
});

describe('pull', () => {
  test('fetches from a hub what models verify then finds right', async () => {
    const hub = await fakeHub('o/tiny', [
      { path: 'tiny-Q8_0.gguf', content: new Uint8Array(tiny) },
      { path: 'tiny-F16.gguf', content: new Uint8Array(8) },
      { path: 'mmproj-F16.gguf', content: new Uint8Array(8) },
    ]);
    hub.token = 'secret';
    const folder = freshDataDir();
    const pullOnce = async (...args: string[]) => {
      const env = { HF_ENDPOINT: hub.url, HF_TOKEN: 'secret' };
      const host = startSource(['pull', ...args, '--data-dir', folder], env);
      return { ...(await host.exit), ...host.output };
    };
    const path = join(folder, 'models', 'o--tiny', 'tiny-Q8_0.gguf');
    expect(await pullOnce('o/tiny')).toMatchObject({
      code: 0,
      stdout: `${path}\nServe it with: node dist/host.js --gpu --model ${path}\n`,
      stderr: '',
    });
    expect(readFileSync(path).equals(tiny)).toBe(true);
    expect((await pullOnce('o/tiny')).stderr).toBe('already downloaded and verified\n');
    expect(await pullOnce('o/tiny:Q4_K_M')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("the repository has no GGUF file 'Q4_K_M'; it has: tiny-Q8_0.gguf"),
    });
    expect(lineOf((await run(folder, 'verify')).stdout, 'o--tiny/tiny-Q8_0')).toMatch(
      /checksums of 1 of 1 files/,
    );
    await hub.close();
  });
});
