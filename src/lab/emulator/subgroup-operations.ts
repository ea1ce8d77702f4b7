/** Operations between the invocations of a subgroup, as in WGSL; sums are trees of rounded additions. */
import type { ElementName } from './value-types.ts';
import { EmulationError } from './emulation-error.ts';
import type { SyncRequest } from './sync-functions.ts';
import { type EmulatedMemory, type MatrixValue, type MemoryPointer, roundHalf } from './runtime.ts';

type Scalar = number | boolean;
type Operand = Scalar | readonly Scalar[];

/** What lanes that execute an operation together give it, in order of lanes. */
export interface SubgroupCall {
  readonly op: string;
  /** Numbers of the lanes that take part. */
  readonly lanes: readonly number[];
  readonly subgroupSize: number;
  /** What each of these lanes gives: the call, the element type as text, a value, and another argument. */
  readonly requests: readonly SyncRequest[];
  /** Called where a lane reads one of the subgroup that does not take part. */
  readonly onInactive: () => void;
  /** Called before each access of a matrix to memory. */
  readonly onAccess: (memory: EmulatedMemory, address: number, bytes: number, writes: boolean) => void;
}

/** What a lane reads from one that does not take part or does not exist; WGSL leaves it undefined. */
const undefinedOf = (element: ElementName): number =>
  element === 'f32' || element === 'f16' ? Number.NaN : rounding(element)(0x7fc0dead);

const rounding = (element: ElementName): ((value: number) => number) => {
  switch (element) {
    case 'f32':
      return Math.fround;
    case 'f16':
      return roundHalf;
    case 'u32':
      return (value) => value >>> 0;
    default:
      return (value) => value | 0;
  }
};

type Combine = (a: number, b: number) => number;

function combineOf(op: string, element: ElementName): Combine {
  const round = rounding(element);
  if (op.endsWith('Add')) return (a, b) => round(a + b);
  if (op.endsWith('Mul'))
    return element === 'f32' || element === 'f16' ? (a, b) => round(a * b) : (a, b) => round(Math.imul(a, b));
  if (op.endsWith('Min')) return (a, b) => (b < a ? b : a);
  if (op.endsWith('Max')) return (a, b) => (b > a ? b : a);
  if (op.endsWith('And')) return (a, b) => round(a & b);
  if (op.endsWith('Xor')) return (a, b) => round(a ^ b);
  return (a, b) => round(a | b);
}

/** Applies a function of one number of each lane to each component. */
function byComponent(
  values: readonly Operand[],
  apply: (column: readonly Scalar[]) => readonly Scalar[],
): Operand[] {
  const [first] = values;
  if (!Array.isArray(first)) return [...apply(values as readonly Scalar[])];
  const columns = first.map((_, i) =>
    apply(values.map((value) => (value as readonly Scalar[])[i] as Scalar)),
  );
  return values.map((_, lane) => columns.map((column) => column[lane] as Scalar));
}

/** Pairs of neighbors, then pairs of pairs: the order of a butterfly exchange. */
function tree(values: readonly number[], combine: Combine): number {
  let level = [...values];
  while (level.length > 1) {
    const next: number[] = [];
    for (let i = 0; i < level.length; i += 2)
      next.push(
        i + 1 < level.length ? combine(level[i] as number, level[i + 1] as number) : (level[i] as number),
      );
    level = next;
  }
  return level[0] as number;
}

/** Lane that each lane reads from; -1 for none. */
function sourceLane(op: string, lane: number, argument: number, size: number): number {
  const source = ((): number => {
    switch (op) {
      case 'subgroupShuffleXor':
        return lane ^ argument;
      case 'subgroupShuffleUp':
        return lane - argument;
      case 'subgroupShuffleDown':
        return lane + argument;
      case 'quadBroadcast':
        return (lane & ~3) + argument;
      case 'quadSwapX':
        return lane ^ 1;
      case 'quadSwapY':
        return lane ^ 2;
      case 'quadSwapDiagonal':
        return lane ^ 3;
      default:
        return argument;
    }
  })();
  return source >= 0 && source < size ? source : -1;
}

/** Results in order of lanes. */
export function subgroupOperation(call: SubgroupCall): readonly unknown[] {
  const { op, lanes, requests } = call;
  if (op.startsWith('subgroupMatrix')) return matrixOperation(call);
  const element = requests[0]?.[1] as ElementName;
  const values = requests.map((one) => one[2] as Operand);
  switch (op) {
    case 'subgroupElect':
      return lanes.map((_, i) => i === 0);
    case 'subgroupAll':
      return lanes.map(() => values.every(Boolean));
    case 'subgroupAny':
      return lanes.map(() => values.some(Boolean));
    case 'subgroupBallot': {
      const words = [0, 0, 0, 0];
      lanes.forEach((lane, i) => {
        if (values[i] === true) words[lane >> 5] = ((words[lane >> 5] as number) | (1 << (lane & 31))) >>> 0;
      });
      return lanes.map(() => words);
    }
    case 'subgroupBroadcastFirst':
      return lanes.map(() => values[0]);
    case 'subgroupInclusiveAdd':
    case 'subgroupInclusiveMul':
    case 'subgroupExclusiveAdd':
    case 'subgroupExclusiveMul': {
      const combine = combineOf(op, element);
      return byComponent(values, (column) => {
        let sum = op.endsWith('Add') ? 0 : 1;
        return column.map((value) => {
          const before = sum;
          sum = combine(sum, Number(value));
          return op.includes('Inclusive') ? sum : before;
        });
      });
    }
    case 'subgroupAdd':
    case 'subgroupMul':
    case 'subgroupMin':
    case 'subgroupMax':
    case 'subgroupAnd':
    case 'subgroupOr':
    case 'subgroupXor': {
      const combine = combineOf(op, element);
      return byComponent(values, (column) => {
        const total = tree(column as readonly number[], combine);
        return column.map(() => total);
      });
    }
    case 'subgroupBroadcast':
    case 'subgroupShuffle':
    case 'subgroupShuffleXor':
    case 'subgroupShuffleUp':
    case 'subgroupShuffleDown':
    case 'quadBroadcast':
    case 'quadSwapX':
    case 'quadSwapY':
    case 'quadSwapDiagonal':
      return lanes.map((lane, i) => {
        const sourceOf = sourceLane(op, lane, Number(requests[i]?.[3] ?? 0), call.subgroupSize);
        const source = lanes.length === call.subgroupSize ? sourceOf : lanes.indexOf(sourceOf);
        if (source >= 0) return values[source];
        if (sourceOf >= 0) call.onInactive();
        const own = values[i];
        return Array.isArray(own) ? own.map(() => undefinedOf(element)) : undefinedOf(element);
      });
    default:
      throw new EmulationError(`the function ${op}`);
  }
}

const read = (memory: EmulatedMemory, element: ElementName, address: number): number =>
  element === 'f16'
    ? memory.getF16(address)
    : (memory[element as 'f32' | 'u32' | 'i32'][address >>> 2] as number);

const write = (memory: EmulatedMemory, element: ElementName, address: number, value: number): void => {
  if (element === 'f16') memory.setF16(address, value);
  else memory[element as 'f32' | 'u32' | 'i32'][address >>> 2] = value;
};

/** The lanes give the same arguments; those of the first are used. */
function matrixOperation({ op, requests, onAccess }: SubgroupCall): readonly unknown[] {
  const [, ...first] = requests[0] as SyncRequest;
  const element = first[0] as ElementName;
  const bytes = element === 'f16' ? 2 : 4;
  switch (op) {
    case 'subgroupMatrixLoad': {
      const [, pointer, offset, isColumnMajor, stride, columns, rows] = first as [
        ElementName,
        MemoryPointer,
        number,
        boolean,
        number,
        number,
        number,
      ];
      const values = new Float64Array(columns * rows);
      for (let c = 0; c < columns; c++) {
        for (let r = 0; r < rows; r++) {
          const at = offset + (isColumnMajor ? c * stride + r : r * stride + c);
          const address = pointer.address + at * bytes;
          onAccess(pointer.memory, address, bytes, false);
          values[c * rows + r] = read(pointer.memory, element, address);
        }
      }
      const matrix: MatrixValue = { columns, rows, values };
      return requests.map(() => matrix);
    }
    case 'subgroupMatrixStore': {
      const [, pointer, offset, { columns, rows, values }, isColumnMajor, stride] = first as [
        ElementName,
        MemoryPointer,
        number,
        MatrixValue,
        boolean,
        number,
      ];
      for (let c = 0; c < columns; c++) {
        for (let r = 0; r < rows; r++) {
          const at = offset + (isColumnMajor ? c * stride + r : r * stride + c);
          const address = pointer.address + at * bytes;
          onAccess(pointer.memory, address, bytes, true);
          write(pointer.memory, element, address, values[c * rows + r] as number);
        }
      }
      return requests.map(() => undefined);
    }
    default: {
      const [, left, right, sum] = first as [ElementName, MatrixValue, MatrixValue, MatrixValue | undefined];
      const { rows, columns: depth } = left;
      const { columns } = right;
      const round = rounding(element);
      const values = new Float64Array(columns * rows);
      for (let c = 0; c < columns; c++) {
        for (let r = 0; r < rows; r++) {
          let total = sum ? (sum.values[c * rows + r] as number) : 0;
          for (let k = 0; k < depth; k++)
            total += (left.values[k * rows + r] as number) * (right.values[c * depth + k] as number);
          values[c * rows + r] = round(total);
        }
      }
      const product: MatrixValue = { columns, rows, values };
      return requests.map(() => product);
    }
  }
}
