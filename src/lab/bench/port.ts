/** `baseline`: built-in kernels only. `bound`: with the bound kernels. */
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

/** Access of a bench to the resident model. Nothing else may use the model meanwhile. */
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
   * Prefills a prompt from position 0.
   * @returns wall-clock time from submit to result, and the greedy token after the prompt
   */
  prefill(arm: Arm, tokens: readonly number[]): Promise<{ ms: number; token: number }>;
  /**
   * Decodes `count` tokens greedily from position `context`, with `first` as the token there and with several steps in
   * flight, like the engine. The cache before that position can contain any data.
   * @returns total wall-clock time, and the sampled tokens
   */
  decode(
    arm: Arm,
    context: number,
    count: number,
    first: number,
  ): Promise<{ ms: number; tokens: readonly number[] }>;
  /** GPU time of every dispatch of one decode step at `context`. */
  trace(arm: Arm, context: number): Promise<readonly TracedDispatch[]>;
}
