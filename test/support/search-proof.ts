/**
 * A search of `node dist/lab.js` on a real host, with a command that proposes right, wrong, cheating, hanging and crashing
 * kernels, and that crashes itself; the search is killed twice. The best honest kernel is then bound on another host.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LabKernelDetail } from '../../src/lab/types.ts';
import type { VerifiedConfig } from '../../src/lab-tool/verify-config.ts';
import { entryPath, freshDataDir, repository, startHost } from './host.ts';

const honest = readFileSync(join(repository, 'docs/samples/gate_up.wgsl'), 'utf8');

/** The honest kernel with another idea and changed lines. Throws where a line is not in it. */
function changed(idea: string, ...changes: readonly (readonly [string, string])[]): string {
  let source = honest.replace(/^\/\/ y = /m, `// ${idea}\n$&`);
  for (const [from, to] of changes) {
    if (!source.includes(from)) throw new Error(`docs/samples/gate_up.wgsl does not contain '${from}'`);
    source = source.replace(from, to);
  }
  return source;
}

const product = 'part.y += dot(weights(up_low[j]), low) + dot(weights(up_high[j]), high);';
const result = 'y[params.y_offset + row] = silu(sum.x) * sum.y;';
const loop = 'for (var b = 0u; b < params.blocks; b++) {';
/** Functions of which each calls the one before it twice: compiled, 2^30 copies. */
const doubling = [
  'fn twice0(value: f32) -> f32 { return fract(value * 1.618); }',
  ...Array.from(
    { length: 30 },
    (_, n) => `fn twice${n + 1}(value: f32) -> f32 { return twice${n}(twice${n}(value) + 0.5); }`,
  ),
].join('\n');

/** Kernels that compute the op and may be kept, by their idea. */
export const honestIdeas = ['a row for each invocation', 'the same, eight rows a workgroup'] as const;

/** What the command proposes, in turn. `crash`: it ends by a signal. */
const proposals: readonly string[] = [
  changed('forgets the second half of each up block', [product, 'part.y += dot(weights(up_low[j]), low);']),
  changed(honestIdeas[0]),
  changed('reads every second block', [loop, loop.replace('b++', 'b += 2u')]),
  'crash',
  changed('is right for the first token only', [
    result,
    'if (x[0].x != 0.5) { y[params.y_offset + row] = silu(sum.x) * sum.y; } else { y[params.y_offset + row] = 0.0; }',
  ]),
  changed('keeps what was there', [result, `if (y[params.y_offset + row] == 0.0) { ${result} }`]),
  changed('never ends', [
    loop,
    `var spent = abs(sum.x) + 1.0;\n  while (spent > 0.0) { spent = spent * 0.5 + 0.5; }\n  sum.x += spent * 0.0;\n  ${loop}`,
  ]),
  changed(
    'is endless to compile',
    ['fn silu(', `${doubling}\nfn silu(`],
    ['silu(sum.x) * sum.y', 'silu(sum.x) * sum.y + min(twice30(sum.x), 0.0)'],
  ),
  changed(honestIdeas[1], ['tune WG = 8, 16, 32', 'override WG = 8']),
];

export interface ProvenAttempt {
  readonly by: string;
  readonly idea: string;
  readonly verdict: string;
  /** Speed against the built-in kernels with its interval, of those that were measured. */
  readonly ratio?: number;
  readonly low?: number;
  readonly high?: number;
  readonly finding?: string;
}
export interface SearchProof {
  readonly attempts: readonly ProvenAttempt[];
  /** Exit code of the search: 0 where the best kernel is faster than the built-in kernels. */
  readonly code: number | null;
  readonly best: string | undefined;
  /** What `verify` says on a data directory that has seen nothing of it. */
  readonly verified: { readonly ok: boolean; readonly findings: readonly string[] };
  readonly savedSource: string;
  /** The bench in the signed config. */
  readonly saved?: { readonly decode: number; readonly verdict: string; readonly rounds: number };
  /** Components that run the best kernel on the other host, and its source there. */
  readonly bound: readonly string[];
  readonly boundSource: string;
  readonly seconds: number;
}

interface Entry {
  readonly type: string;
  readonly n?: number;
  readonly by?: string;
  readonly idea?: string;
  readonly verdict?: string;
  readonly ratio?: number;
  readonly low?: number;
  readonly high?: number;
  readonly findings?: readonly { readonly code: string; readonly message: string }[];
}

/** @param model options of the host that name its model; empty: the embedded one */
export async function proveSearch(model: readonly string[], budget: string): Promise<SearchProof> {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-search-proof-'));
  const at = (name: string) => join(folder, name);
  const started = performance.now();
  const hosts: ReturnType<typeof startHost>[] = [];
  const open = async (dataDir: string, ...more: readonly string[]) => {
    const host = startHost(['--gpu', '--port', '0', '--data-dir', dataDir, ...model, ...more]);
    hosts.push(host);
    return await host.url();
  };
  try {
    writeFileSync(at('proposals.json'), JSON.stringify(proposals));
    // It counts its calls in a file, as the crash leaves no attempt.
    writeFileSync(
      at('proposer.mjs'),
      `import { appendFileSync, existsSync, readFileSync } from 'node:fs';
      const state = JSON.parse(readFileSync(0, 'utf8'));
      const tried = state.attempts.filter(({ by }) => by === 'command').length;
      const crashed = existsSync(${JSON.stringify(at('crashed'))});
      const list = JSON.parse(readFileSync(${JSON.stringify(at('proposals.json'))}, 'utf8'));
      const next = list.filter((one) => one !== 'crash' || !crashed)[tried];
      if (next === 'crash') { appendFileSync(${JSON.stringify(at('crashed'))}, ''); process.kill(process.pid, 'SIGKILL'); }
      process.stdout.write(next ?? '');`,
    );
    const url = await open(freshDataDir());
    const args = [
      'search',
      'norm_gated_matvec',
      '--bind=layers.*.ffn.norm_gate_up_act',
      '--name=found',
      `--journal=${at('found.jsonl')}`,
      `--budget=${budget}`,
      '--force',
      `--url=${url}`,
      `--command=${process.execPath} ${at('proposer.mjs')}`,
    ];
    const journal = (): readonly Entry[] => {
      try {
        const text = readFileSync(at('found.jsonl'), 'utf8');
        return text
          .slice(0, text.lastIndexOf('\n') + 1)
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line) as Entry);
      } catch {
        return []; // not yet there
      }
    };
    const begun = (idea: string) =>
      journal().filter((one) => one.type === 'begun' && one.idea === idea).length;
    for (const idea of [honestIdeas[0], 'never ends']) {
      const child = spawn(process.execPath, [entryPath('lab'), ...args], { stdio: 'ignore' });
      const closed = new Promise((resolve) => child.on('close', resolve));
      let isOver = false;
      void closed.then(() => {
        isOver = true;
      });
      while (begun(idea) === 0 && !isOver) await sleep(20);
      child.kill('SIGKILL');
      await closed;
      if (begun(idea) !== 1) throw new Error(`the search ended before it tried '${idea}'`);
    }
    const search = await lab(args);
    const entries = journal();
    const attempts = entries.flatMap((one): ProvenAttempt[] => {
      if (one.type !== 'ended' || one.verdict === undefined) return [];
      const { by = '', idea = '' } = entries.find(({ type, n }) => type === 'begun' && n === one.n) ?? {};
      const [finding] = one.findings ?? [];
      return [
        {
          by,
          idea,
          verdict: one.verdict,
          ...(one.ratio === undefined ? {} : { ratio: one.ratio }),
          ...(one.low === undefined ? {} : { low: one.low }),
          ...(one.high === undefined ? {} : { high: one.high }),
          ...(finding ? { finding: `${finding.code}: ${finding.message}` } : {}),
        },
      ];
    });
    const config = at('found.json');
    await lab(['export', 'found', '--out', config, '--url', url], 0);
    // `verify` has a data directory of its own, which has seen nothing of this.
    const verified = JSON.parse((await lab(['verify', config, '--json'], 0)).stdout) as VerifiedConfig;
    const saved = verified.config?.bench?.result;

    // Another data directory: the config is imported, and bound from the next start on.
    const otherData = freshDataDir();
    const other = await open(otherData);
    await lab(['import', config, '--url', other], 0);
    await hosts.at(-1)?.end();
    const second = await open(otherData, '--kernels', 'found', '--trust-key', verified.signed_by ?? '');
    const kernels = verified.config?.kernels ?? [];
    const name = kernels.map((one) => one.name).join();
    const bound = (await (await fetch(`${second}/lab/v1/kernels/${name}`)).json()) as LabKernelDetail;
    return {
      attempts,
      code: search.code,
      best: /^best: \d+, (.*), of \d+ attempts?$/m.exec(search.stdout)?.[1],
      verified: { ok: verified.ok, findings: verified.findings.map(({ code }) => code) },
      savedSource: kernels.map(({ source }) => source).join('\n'),
      ...(saved
        ? { saved: { decode: saved.delta.decode, verdict: saved.verdict, rounds: saved.rounds } }
        : {}),
      bound: bound.components,
      boundSource: bound.registration.source,
      seconds: (performance.now() - started) / 1000,
    };
  } finally {
    for (const host of hosts) await host.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs `node dist/lab.js`. Throws with its output where it ends with another code than `expected`. */
async function lab(args: readonly string[], expected?: number) {
  const child = spawn(process.execPath, [entryPath('lab'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, LATHE_DATA_DIR: freshDataDir() },
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
    });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  if (expected !== undefined && code !== expected)
    throw new Error(`lab ${args.join(' ')} ended with ${code}:\n${output.stdout}\n${output.stderr}`);
  return { code, ...output };
}
