/** Metadata and tensors of tiny models with layers that keep a state. */
import { type GgufValue, scalars, u32 } from './gguf-writer.ts';

/** Sizes of the layers with a state: those of the delta rule, and the length of the convolutions. */
export interface TinyState {
  readonly kernel?: number;
  readonly keyHeads?: number;
  readonly valueHeads?: number;
  readonly keyDim?: number;
  readonly valueDim?: number;
  /** One layer of this many has attention, or these layers. */
  readonly every?: number;
  readonly attending?: readonly number[];
  /** Biases of convolutions and the products around them, for architectures that may have them. */
  readonly biases?: boolean;
}

interface Sizes {
  readonly architecture: string;
  readonly layers: number;
  readonly width: number;
  readonly kvHeads: number;
  readonly state?: TinyState | undefined;
}

/** A matrix of the model's type, or values around a mean. */
export type TinyTensor =
  | { readonly name: string; readonly rows: number; readonly columns: number }
  | {
      readonly name: string;
      readonly shape: readonly number[];
      readonly scale: number;
      readonly around: number;
    };

const sizesOf = ({ kernel, keyHeads = 2, valueHeads = 4, keyDim = 16, valueDim = 16 }: TinyState = {}) => ({
  kernel: kernel ?? 4,
  keyHeads,
  valueHeads,
  keyDim,
  valueDim,
  values: valueHeads * valueDim,
  channels: 2 * keyHeads * keyDim + valueHeads * valueDim,
});

const hasStates = (architecture: string): boolean => architecture === 'lfm2' || architecture === 'qwen35';

const attends = ({ architecture, state }: Pick<Sizes, 'architecture' | 'state'>, layer: number): boolean =>
  !hasStates(architecture) || (state?.attending?.includes(layer) ?? (layer + 1) % (state?.every ?? 2) === 0);

/** Tensors of a layer with a state; undefined for a layer with attention. */
export function stateTensors(model: Sizes, layer: number): TinyTensor[] | undefined {
  if (attends(model, layer)) return undefined;
  const { architecture, width, state = {} } = model;
  const { kernel, valueHeads, valueDim, values, channels } = sizesOf(state);
  const name = (part: string) => `blk.${layer}.${part}`;
  if (architecture === 'lfm2') {
    const biases = ['in_proj', 'conv', 'out_proj'].map((part) => ({
      name: name(`shortconv.${part}.bias`),
      shape: [part === 'in_proj' ? 3 * width : width],
      scale: 0.2,
      around: 0,
    }));
    return [
      { name: name('shortconv.in_proj'), rows: 3 * width, columns: width },
      { name: name('shortconv.conv.weight'), shape: [width, kernel], scale: 0.5, around: 0 },
      { name: name('shortconv.out_proj'), rows: width, columns: width },
      ...(state.biases ? biases : []),
    ];
  }
  return [
    { name: name('attn_qkv'), rows: channels, columns: width },
    { name: name('attn_gate'), rows: values, columns: width },
    { name: name('ssm_beta'), rows: valueHeads, columns: width },
    { name: name('ssm_alpha'), rows: valueHeads, columns: width },
    { name: name('ssm_conv1d.weight'), shape: [channels, kernel], scale: 0.5, around: 0 },
    { name: name('ssm_dt.bias'), shape: [valueHeads], scale: 1, around: 0 },
    { name: name('ssm_a'), shape: [valueHeads], scale: 0.1, around: -0.6 },
    { name: name('ssm_norm.weight'), shape: [valueDim], scale: 0.2, around: 1 },
    { name: name('ssm_out'), rows: width, columns: values },
  ];
}

/** The metadata of these layers. */
export function stateMetadata(model: Sizes): Record<string, GgufValue> {
  const { architecture, layers, kvHeads, state } = model;
  if (!hasStates(architecture)) return {};
  const { kernel, keyHeads, valueHeads, keyDim, values } = sizesOf(state);
  if (architecture === 'lfm2') {
    const each = Array.from({ length: layers }, (_, layer) => (attends(model, layer) ? kvHeads : 0));
    return { 'attention.head_count_kv': scalars('i32', each), 'shortconv.l_cache': u32(kernel) };
  }
  return {
    full_attention_interval: u32(state?.every ?? 2),
    'ssm.conv_kernel': u32(kernel),
    'ssm.state_size': u32(keyDim),
    'ssm.group_count': u32(keyHeads),
    'ssm.time_step_rank': u32(valueHeads),
    'ssm.inner_size': u32(values),
  };
}
