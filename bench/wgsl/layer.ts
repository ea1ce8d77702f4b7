/** The task of a whole layer: kernels that are bound to a live model of one layer, and benched there. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { contracts } from '../../kernels/contracts.ts';
import { loadEngine } from '../../src/engine/index.ts';
import { openLab } from '../../src/lab/index.ts';
import { renderStub } from '../../src/lab/stubs.ts';
import { LabError } from '../../src/lab/types.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { errorMessage } from '../../src/util/error-message.ts';
import { findModel } from '../models.ts';
import type { LayerKernel } from './submissions.ts';
import { layerTask } from './tasks.ts';

export interface LayerScore {
  /** Tokens per second over those of the built-in kernels, in one bench. */
  readonly overBuiltin?: number;
  /** Why it has no score: which kernel is rejected or cannot be bound. */
  readonly fault?: string;
}

export interface LayerResult {
  readonly baseline: LayerScore;
  /** Decoded tokens per second with the built-in kernels. */
  readonly builtinTokensPerSecond: number;
  readonly submission?: LayerScore;
}

const childPath = fileURLToPath(new URL('../../src/lab-child.ts', import.meta.url));
const context = 128;

export async function measureLayer(
  submission: readonly LayerKernel[],
  { adapter, rounds }: { adapter?: string | undefined; rounds: number },
): Promise<LayerResult> {
  const { path } = await findModel(layerTask.model);
  const platform = nodePlatform();
  const engine = await loadEngine(platform, {
    model: path,
    context: 512,
    parallel: 1,
    ...(adapter === undefined ? {} : { adapter }),
  });
  const dataDir = await mkdtemp(join(tmpdir(), 'lathe-bench-'));
  const wgsl = await platform.wgsl();
  const lab = await openLab({
    engine,
    wgsl,
    dataDir,
    childPath,
    adapter,
    dawn: 'any',
    version: '0',
    toggles: [],
    trustedKeys: [],
    allowUnverified: false,
    onWarning: () => undefined,
  });
  const { signal } = new AbortController();
  const bench = () => lab.bench({ rounds, new_tokens: 8, prompt_tokens: 16, contexts: [context] }, signal);
  const score = async (kernels: readonly LayerKernel[], needsAll: boolean): Promise<LayerScore> => {
    await lab.unbind();
    for (const { registration, bind } of kernels) {
      const report = await lab.register(registration, signal);
      const finding = report.stages
        .flatMap(({ findings }) => findings)
        .find(({ severity }) => severity === 'error');
      if (!report.accepted) return { fault: `${registration.name}: ${finding?.message ?? 'rejected'}` };
      try {
        await lab.bind({ kernel: registration.name, components: [...bind] }, signal);
      } catch (error) {
        if (!(error instanceof LabError)) throw error;
        if (needsAll) return { fault: `${registration.name}: ${errorMessage(error)}` };
      }
    }
    const { delta } = await bench();
    return { overBuiltin: 1 + delta.decode };
  };
  try {
    const { components } = await lab.parts();
    const ofLayer = components.filter(({ op, layer }) => layer !== undefined && contracts.has(op));
    // Plain stubs on every component of the layer that they fit.
    const formats = new Map((await lab.graph()).nodes.map(({ component, dtype }) => [component, dtype]));
    const stubs = [...Map.groupBy(ofLayer, ({ op }) => op)].map(([op, of]): LayerKernel => {
      const format = of.map(({ id }) => formats.get(id)).find((name) => name === 'q8_0');
      const { source, dispatch, overrides, requires } = renderStub(wgsl, op, 'plain', format);
      const name = `naive.${op}`;
      return {
        registration: { name, op, source, dispatch, overrides, requires: [...requires] },
        bind: of.map(({ id }) => id),
      };
    });
    const baseline = await score(stubs, false);
    return {
      baseline,
      builtinTokensPerSecond: (await lab.unbind().then(bench)).baseline.decode_tps,
      ...(submission.length > 0 ? { submission: await score(submission, true) } : {}),
    };
  } finally {
    await lab.close();
    await engine.close();
    await rm(dataDir, { recursive: true });
  }
}
