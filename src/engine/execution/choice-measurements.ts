/** Measurements of the choices that a plan leaves open, apart from those of products. */
import { seededRandom } from '../../util/random.ts';
import type { BufferName } from '../graph/graph.ts';
import { hasChoices, planUnit } from '../ops/index.ts';
import { areEqual, areNear, type Candidate, type Measurement } from './measure-candidates.ts';
import type { MeasuredChoice, MeasuredStep } from './measured-choice.ts';
import { encodeDispatch } from './plan.ts';
import { type PlanContext, tilingOf } from './plan-context.ts';
import { StepInput } from './step.ts';
import { stepKey } from './tuning.ts';

/** More than for products: there are few choices, and they differ by less. */
const choiceRounds = 9;

/** A model whose plan is not made yet. */
export type ChoicesPlanner = Omit<PlanContext, 'collect'>;

/** `tiling`: choices that change the tiles of a step. */
type ChoiceKind = 'tiling' | 'variant';

const kindOf = ({ options }: MeasuredChoice): ChoiceKind =>
  options.some(({ tiling }) => tiling) ? 'tiling' : 'variant';

/** The measurements of a plan's choices, one for each subject and step. */
export async function choiceMeasurements(context: ChoicesPlanner, kind?: ChoiceKind): Promise<Measurement[]> {
  const inputs = new Inputs(context);
  const choices = (await choicesOf(context)).filter(
    (choice) => kind === undefined || kindOf(choice) === kind,
  );
  return choices.flatMap((choice) =>
    choice.steps.map((step) => measurementOf(context, choice, step, inputs)),
  );
}

/** Plans the units that leave choices, without compiling anything. Layers with the same choice have it once. */
export async function choicesOf(context: ChoicesPlanner): Promise<MeasuredChoice[]> {
  const choices = new Map<string, MeasuredChoice>();
  const collect = (choice: MeasuredChoice) => {
    const key = [choice.subject, ...choice.steps.map(({ name }) => name)].join('; ');
    if (!choices.has(key)) choices.set(key, choice);
  };
  for (const fusedOp of context.fusedOps.filter(hasChoices)) await planUnit({ ...context, collect }, fusedOp);
  return [...choices.values()];
}

function measurementOf(
  context: ChoicesPlanner,
  { subject, options, output }: MeasuredChoice,
  step: MeasuredStep,
  inputs: Inputs,
): Measurement {
  const { memory, gpu } = context;
  const stepOf = (tiling = tilingOf(context)): StepInput => {
    const input = new StepInput(memory.layout, {
      ...tiling,
      splitTokens: memory.splitTokens,
      separatesDecodeRows: true,
    });
    input.clear();
    step.compose(input);
    return input;
  };
  const { dims } = stepOf(options[0]?.tiling);
  const words = output.words(dims);
  return {
    key: stepKey(subject, step.name),
    candidates: options.map(({ name, tiling, dispatches }): Candidate => {
      const own = stepOf(tiling);
      return {
        name,
        async prepare() {
          const planned = (await dispatches()).map((one) => ({
            ...one,
            nodes: [],
            part: 'forward' as const,
          }));
          return (pass) => {
            for (const dispatch of planned) {
              if (!encodeDispatch(pass, dispatch, own.dims)) throw new Error(`${subject}: nothing to run`);
            }
          };
        },
        write: () => gpu.device.queue.writeBuffer(memory.step, 0, own.bytes()),
      };
    }),
    fill: () => inputs.write(output, words),
    output: { buffer: output.buffer, words },
    rounds: choiceRounds,
    isNear: output.exact === true ? areEqual : areNear,
  };
}

/** Values that kernels read while they are measured. */
class Inputs {
  readonly #context: ChoicesPlanner;
  /** The output that was measured last; its values may be NaN. */
  #spoiled: { readonly buffer: GPUBuffer; readonly words: number } | undefined;
  #isWritten = false;

  constructor(context: ChoicesPlanner) {
    this.#context = context;
  }

  /** Writes the output of a measurement, and the inputs that are not written yet. */
  write({ buffer, inPlace = false }: MeasuredChoice['output'], words: number): void {
    const { queue } = this.#context.gpu.device;
    if (!this.#isWritten) this.#writeAll();
    const spoiled = this.#spoiled;
    if (spoiled && spoiled.buffer !== buffer) queue.writeBuffer(spoiled.buffer, 0, noise(spoiled.words));
    this.#spoiled = { buffer, words };
    queue.writeBuffer(buffer, 0, inPlace ? noise(words) : new Float32Array(words).fill(Number.NaN));
  }

  #writeAll(): void {
    this.#isWritten = true;
    this.#writePages();
    const { memory, gpu } = this.#context;
    for (const name of Object.keys(memory.buffers) as BufferName[]) {
      const { [name]: buffer } = memory.buffers;
      const count = Math.min(measuredRows * memory.strides[name], buffer.size / 4);
      if (count > 0) gpu.device.queue.writeBuffer(buffer, 0, noise(count));
    }
  }

  /** Keys and values of slot 0 in every cache; where there are fewer pages than its context has, they repeat. */
  #writePages(): void {
    const { memory, gpu } = this.#context;
    const { device } = gpu;
    const pages = Math.min(memory.maxPages, memory.capacity.pages);
    const pageTable = Uint32Array.from({ length: memory.maxPages }, (_, index) => index % pages);
    device.queue.writeBuffer(memory.pageTable, 0, pageTable);
    const encoder = device.createCommandEncoder();
    const sources: GPUBuffer[] = [];
    for (const cache of memory.caches) {
      if (cache.kind !== 'pages') continue;
      const source = device.createBuffer({
        label: 'tuner.page',
        size: cache.pageBytes,
        usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
      });
      sources.push(source);
      device.queue.writeBuffer(source, 0, halves(cache.pageBytes / 2));
      for (let page = 0; page < Math.min(pages, measuredPages); page++) {
        for (const to of [cache.k, cache.v])
          encoder.copyBufferToBuffer(source, 0, to, page * cache.pageBytes, cache.pageBytes);
      }
    }
    device.queue.submit([encoder.finish()]);
    for (const source of sources) source.destroy();
  }
}

/** Rows of activations that are written: as many as the largest step has. */
const measuredRows = 64;
/** Pages that are written. The others are zeros, which take as long. */
const measuredPages = 64;

/** Values between -1 and 1, which repeat after a length that is prime. */
function noise(count: number): Float32Array<ArrayBuffer> {
  noiseTable ??= uniformValues(65_521);
  const values = new Float32Array(count);
  for (let at = 0; at < count; at += noiseTable.length)
    values.set(noiseTable.subarray(0, Math.min(noiseTable.length, count - at)), at);
  return values;
}
let noiseTable: Float32Array | undefined;
function uniformValues(count: number): Float32Array {
  const random = seededRandom(count);
  return Float32Array.from({ length: count }, () => 2 * random() - 1);
}

/** Bits of f16 numbers of both signs between 0.5 and 1. */
function halves(count: number): Uint16Array<ArrayBuffer> {
  const random = seededRandom(count);
  return Uint16Array.from({ length: count }, () => {
    const bits = Math.floor(random() * 0x800);
    return ((bits & 0x400) << 5) | 0x3800 | (bits & 0x3ff);
  });
}
