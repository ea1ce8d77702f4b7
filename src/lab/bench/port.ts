/** `baseline`: without the kernels that are measured. `bound`: with them. */
export type Arm = 'baseline' | 'bound';

/** One dispatch of a traced step. */
export interface TracedDispatch {
  /** Id of the component; several dispatches can share one. */
  readonly id: string;
  readonly kernel: string;
  /** GPU time. */
  readonly ms: number;
  /** From the formulas of its op, like `bytes`. */
  readonly flops: number;
  readonly bytes: number;
}

/** Access of a bench to the resident model. Nothing else uses the model meanwhile, except in `pause`. */
export interface BenchPort {
  /** Whether dispatches can be timed; without it nothing is traced. */
  readonly hasTimestamps: boolean;
  /** Whether the adapter is a software implementation on the CPU. */
  readonly isSoftware: boolean;
  readonly maxContext: number;
  readonly vocabulary: number;
  /** Maximum number of prompt tokens in one step; longer prompts take several steps. */
  readonly stepTokens: number;
  /**
   * Whether layers keep a recurrent state of the whole text: decoding a position twice then gives different results.
   */
  readonly hasRecurrentState: boolean;
  /**
   * Prefills a part of a prompt that begins at position 0; `first` is a multiple of `stepTokens`.
   * @returns wall-clock time from submit to result, and the greedy token after the prompt if the part is its last
   */
  prefill(
    arm: Arm,
    tokens: readonly number[],
    part: { readonly first: number; readonly count: number },
  ): Promise<{ ms: number; tokens: readonly number[] }>;
  /**
   * Decodes these tokens, the first at position `context`, with several steps in flight, like the engine.
   * @returns total wall-clock time, and the greedy token after each
   */
  decode(
    arm: Arm,
    context: number,
    tokens: readonly number[],
  ): Promise<{ ms: number; tokens: readonly number[] }>;
  /** Logits after each of these tokens, decoded one by one from position `context` on. */
  decodeLogits(arm: Arm, context: number, tokens: readonly number[]): Promise<readonly Float32Array[]>;
  /** Logits after the last tokens of a prompt, as many as a step can give and at most `count`. */
  prefillLogits(arm: Arm, tokens: readonly number[], count: number): Promise<readonly Float32Array[]>;
  /** Lets requests run that wait. @returns whether there were any; then the cache holds other data than before */
  pause(): Promise<boolean>;
  /** Writes tokens to the cache from position `first` on, as the baseline does. A state begins anew at position 0. */
  fill(first: number, tokens: readonly number[]): Promise<void>;
  /** GPU time of every dispatch of one decode step at `context`. */
  trace(arm: Arm, context: number): Promise<readonly TracedDispatch[]>;
}
