import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { GenerationTimes } from '../generation.ts';
import type { BenchModel } from '../models.ts';
import { ownCpuMs, watchOthers } from '../others.ts';
import { median, rounded } from '../statistics.ts';
import type { Order, Reply, Setting } from './protocol.ts';

/** One figure of both. */
export interface PeerFigure {
  /** Model and what was measured: `tiny decode t/s`. */
  readonly figure: string;
  readonly ours: number;
  readonly peer: number;
  /** `ours / peer`: more is better. */
  readonly ratio: number;
  readonly goal: number;
  readonly peerName: string;
  /** Cores that other processes kept busy meanwhile, on average: 0 on an idle machine. */
  readonly othersCores: number;
  /** As each names it. */
  readonly adapters: { readonly ours: string; readonly peer: string };
}

/** Beat it. */
const goal = 1;
const promptTokens = 128;

/** Small models are over in a second and vary more: they get more rounds, as long as the budget lasts. */
const fullEffort = { leastRounds: 5, mostRounds: 15, budgetMs: 20_000, answerTokens: 33 };
const quickEffort = { leastRounds: 2, mostRounds: 2, budgetMs: 0, answerTokens: 9 };

/**
 * lathe and llama.cpp on the same files and the same adapter. Each has a process of its own that computes only
 * when it is asked, one at a time and by turns, so that what else the machine does hits both alike.
 */
export async function comparePeers(
  models: readonly BenchModel[],
  options: { quick: boolean; adapter: string | undefined; say: (what: string) => void },
): Promise<PeerFigure[]> {
  if (!existsSync(fileURLToPath(new URL('./node_modules/node-llama-cpp', import.meta.url)))) {
    throw new Error('llama.cpp is not installed; first: npm --prefix bench/peers ci');
  }
  const figures: PeerFigure[] = [];
  for (const model of models) figures.push(...(await compareOn(model, options)));
  return figures;
}

async function compareOn(
  model: BenchModel,
  { quick, adapter, say }: { quick: boolean; adapter: string | undefined; say: (what: string) => void },
): Promise<PeerFigure[]> {
  const effort = quick ? quickEffort : fullEffort;
  const order = { context: promptTokens, tokens: effort.answerTokens };
  const setting: Setting = { modelPath: model.path, ...(adapter === undefined ? {} : { adapter }) };
  const contestants: Contestant[] = [];
  const enter = async (script: string, env: Readonly<Record<string, string>>) => {
    const contestant = await Contestant.start(new URL(script, import.meta.url), setting, env);
    contestants.push(contestant);
    say(`${model.name}: warming ${contestant.name}, which takes minutes where the driver never saw it`);
    await contestant.generate(order);
    return contestant;
  };
  try {
    const ours = await enter('./lathe.ts', {});
    // llama.cpp passes over software devices unless one is named.
    const peer = await enter('./llama-cpp.ts', ours.software ? { GGML_VK_VISIBLE_DEVICES: '0' } : {});
    const others = watchOthers(() => ownCpuMs() + ours.cpuMs + peer.cpuMs);
    const times = await takeTurns([ours, peer], order, effort, (contestant, one) =>
      say(
        `${model.name}: ${contestant.name} ${decodeRate(one).toFixed(2)} t/s, ` +
          `prefill ${prefillRate(one).toFixed(2)} t/s`,
      ),
    );
    const othersCores = others();
    const compared = (figure: string, rate: (one: GenerationTimes) => number): PeerFigure => {
      const [a = 0, b = 0] = times.map((list) => median(list.map(rate)));
      return {
        figure: `${model.name} ${figure}`,
        ours: rounded(a),
        peer: rounded(b),
        ratio: rounded(a / b),
        goal,
        peerName: peer.name,
        othersCores,
        adapters: { ours: ours.adapter, peer: peer.adapter },
      };
    };
    return [compared('decode t/s', decodeRate), compared(`prefill ${promptTokens} t/s`, prefillRate)];
  } finally {
    await Promise.all(contestants.map((one) => one.end()));
  }
}

const decodeRate = ({ perTokenMs }: GenerationTimes): number => 1000 / perTokenMs;
const prefillRate = ({ firstTokenMs }: GenerationTimes): number => (promptTokens * 1000) / firstTokenMs;

/** The same order to each in turn, round after round; the times of each. */
async function takeTurns(
  contestants: readonly Contestant[],
  order: Order,
  { leastRounds, mostRounds, budgetMs }: typeof fullEffort,
  onTime: (contestant: Contestant, one: GenerationTimes) => void,
): Promise<GenerationTimes[][]> {
  const times: GenerationTimes[][] = contestants.map(() => []);
  const start = performance.now();
  const enough = (rounds: number) => rounds >= leastRounds && performance.now() - start >= budgetMs;
  for (let rounds = 0; rounds < mostRounds && !enough(rounds); rounds++) {
    for (const [index, contestant] of contestants.entries()) {
      const one = await contestant.generate(order);
      times[index]?.push(one);
      onTime(contestant, one);
    }
  }
  return times;
}

/** The bench's end of a contestant's process. */
class Contestant {
  readonly name: string;
  readonly adapter: string;
  readonly software: boolean;
  /** Processor time of its process, as it last told. */
  cpuMs = 0;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, facts: { name: string; adapter: string; software: boolean }) {
    this.#child = child;
    this.name = facts.name;
    this.adapter = facts.adapter;
    this.software = facts.software;
  }

  static async start(
    script: URL,
    setting: Setting,
    env: Readonly<Record<string, string>>,
  ): Promise<Contestant> {
    const child = fork(script, [JSON.stringify(setting)], { env: { ...process.env, ...env } });
    const reply = await nextReply(child);
    if (reply.type !== 'ready') throw new Error(`${fileURLToPath(script)} spoke before it was ready`);
    return new Contestant(child, reply);
  }

  async generate(order: Order): Promise<GenerationTimes> {
    const reply = nextReply(this.#child);
    this.#child.send(order);
    const times = await reply;
    if (times.type !== 'times') throw new Error(`${this.name} answered ${times.type}`);
    this.cpuMs = times.cpuMs;
    return times;
  }

  async end(): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null) return;
    const over = new Promise((resolve) => this.#child.once('exit', resolve));
    // It holds nothing worth an orderly end, and a busy device would delay one.
    this.#child.kill('SIGKILL');
    await over;
  }
}

function nextReply(child: ChildProcess): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const done = () => {
      child.off('message', onMessage).off('exit', onExit).off('error', onError);
    };
    const onMessage = (message: unknown) => {
      done();
      const reply = message as Reply;
      if (reply.type === 'failed') reject(new Error(reply.message));
      else resolve(reply);
    };
    const onExit = (code: number | null, signal: string | null) => {
      done();
      reject(new Error(`${child.spawnfile} ended with ${signal ?? code} in the middle of a measurement`));
    };
    const onError = (error: Error) => {
      done();
      reject(error);
    };
    child.on('message', onMessage).on('exit', onExit).on('error', onError);
  });
}
