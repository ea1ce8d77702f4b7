/** Builds mixture-of-experts feed-forwards from metadata and tensors of a file. */
import { maxExperts, maxUsed } from '../../../kernels/route.ts';
import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { ExpertShape } from '../graph/graph.ts';
import type { ExpertActivation } from '../ops/expert-matmul.ts';
import type { RouteUnit } from '../ops/route.ts';
import type { GraphBuilder } from '../graph/graph-builder.ts';
import { metadataValue, readNumber, readWhole } from './metadata.ts';
import type { Tensors } from './tensors.ts';

type Shares = RouteUnit['shares'];

/** Differences between mixture-of-experts feed-forwards. */
export interface ExpertTraits {
  readonly shape: ExpertShape;
  /** How the shares of a token's experts are computed. */
  readonly shares: Shares;
  /** Factor for all shares. */
  readonly scale?: number;
  readonly activation: ExpertActivation;
}

/** Value of `expert_gating_func` for a softmax router. */
const softmaxGating = 1;

/**
 * Reads `expert_count`, `expert_used_count` and `expert_feed_forward_length`, and rejects unsupported variants:
 * experts shared by all tokens, groups of experts, and gating other than softmax.
 * @throws ModelFileError `bad_metadata`, `unsupported_architecture`
 */
export function readExpertShape(file: ModelFile): ExpertShape {
  const name = (key: string) => `${String(file.metadata.get('general.architecture'))}.${key}`;
  const readCount = (key: string, max: number, why: string) => readWhole(file, key, [1, max], { why });
  const count = readCount('expert_count', maxExperts, 'the most experts a router supports');
  const usedLimit = Math.min(count, maxUsed);
  const used = readCount(
    'expert_used_count',
    usedLimit,
    usedLimit === count ? 'the number of experts' : 'the most experts of one token',
  );
  const feedForward = readCount('expert_feed_forward_length', 2 ** 20, 'the most rows of an expert');
  if (feedForward % 32 !== 0) {
    throw new ModelFileError(
      'bad_metadata',
      `${file.name}: metadata '${name('expert_feed_forward_length')}' must be a multiple of 32, got ${feedForward}`,
    );
  }
  const rejectAbove = (key: string, limit: number, what: string) => {
    const value = readNumber(file, key, 0);
    if (value <= limit) return;
    throw new ModelFileError(
      'unsupported_architecture',
      `${file.name}: ${what} (metadata '${name(key)}' is ${value}) are not supported`,
    );
  };
  rejectAbove('expert_shared_count', 0, 'experts that all tokens share');
  rejectAbove('expert_shared_feed_forward_length', 0, 'experts that all tokens share');
  rejectAbove('expert_group_count', 1, 'groups of experts');
  rejectAbove('expert_gating_func', softmaxGating, 'routers other than softmax');
  return { count, used, feedForward };
}

/** True when a layer has experts: some models start with dense layers, or mix the two kinds. */
export const hasExperts = (tensors: Tensors, layer: number): boolean =>
  tensors.has(`blk.${layer}.ffn_gate_inp.weight`) || !tensors.has(`blk.${layer}.ffn_gate.weight`);

/** Shares are normalized over the selected experts unless the file says otherwise. */
export const readShareMode = (file: ModelFile): Shares =>
  metadataValue(file, 'expert_weights_norm') === false ? 'of_all' : 'of_all_normalised';

/** Adds: hidden += the expert outputs for `normed`, each times its share. */
export function addExperts(
  g: GraphBuilder,
  tensors: Tensors,
  { layer, width }: { layer: number; width: number },
  { shape, shares, scale = 1, activation }: ExpertTraits,
): void {
  const { count, used, feedForward } = shape;
  const name = (part: string) => `blk.${layer}.${part}`;
  const id = (slot: string) => `layers.${layer}.${slot}`;
  const router = tensors.linear(name('ffn_gate_inp'), count, width);
  const [bias] = router.biases;
  g.product(
    'ffn.router',
    [
      {
        slot: 'ffn.router',
        weight: router.weight,
        rows: count,
        ...(bias === undefined ? {} : { bias }),
      },
    ],
    { from: 'normed', to: 'router' },
  );
  g.unit('ffn.route', { op: 'route', shares, scale }, { inputs: [id('ffn.router')], width: 2 * used });
  const product = (role: 'gate' | 'up' | 'down', inputs: string[]) => {
    const [rows, columns] = role === 'down' ? [width, feedForward] : [feedForward, width];
    const { weight, biases } = tensors.experts(name(`ffn_${role}_exps`), { count, rows, columns });
    const [own] = biases;
    g.unit(
      `ffn.experts_${role}`,
      { op: 'expert_matmul', role, weight, activation, ...(own === undefined ? {} : { bias: own }) },
      { inputs: [id('ffn.route'), ...inputs], width: used * rows, weights: [weight, ...biases] },
    );
  };
  product('gate', ['normed']);
  product('up', ['normed', id('ffn.experts_gate')]);
  product('down', [id('ffn.experts_up')]);
  const inputs = [id('ffn.route'), id('ffn.experts_down'), 'hidden'];
  g.unit('ffn.experts_sum', { op: 'expert_sum' }, { inputs, width });
}
