/** Built-in kernels alone, or with what is bound in their place. */
export type Arm = 'baseline' | 'bound';

/** One dispatch of a traced step. */
export interface TracedDispatch {
  /** Component; several dispatches may share one. */
  readonly id: string;
  readonly kernel: string;
  /** GPU time. */
  readonly ms: number;
  /** By the formulas of its op. */
  readonly flops: number;
  readonly bytes: number;
}

/** What a bench asks of the resident model. Nothing else may use it meanwhile. */
export interface BenchPort {
  /** Dispatches can be timed; without it nothing is traced. */
  readonly timestamps: boolean;
  /** The adapter computes on the machine's own cores. */
  readonly software: boolean;
  readonly maxContext: number;
  readonly vocabulary: number;
  /** Most prompt tokens of one step; longer prompts take several. */
  readonly stepTokens: number;
  /** Layers keep a state of the whole text: what is decoded again at a position is not what was decoded there before. */
  readonly keepsState: boolean;
  /**
   * Computes a prompt from position 0.
   * @returns wall clock from submit to result, and the greedy token behind the prompt
   */
  prefill(arm: Arm, tokens: readonly number[]): Promise<{ ms: number; token: number }>;
  /**
   * Decodes `count` tokens greedily from position `context` on, `first` being the token there, as the engine does:
   * with steps on their way. The cache before it may hold anything.
   * @returns wall clock of all, and the tokens drawn
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
