/**
 * Functions at which the invocations of a subgroup or a workgroup meet. A compiled kernel yields a `SyncRequest`, and receives the
 * result for its invocation.
 */
import { EmulationError } from './emulation-error.ts';
import { convertTo, type Helpers, materialize, type Reference, type Value, valueOf } from './values.ts';
import {
  bool,
  type ElementName,
  elementOf,
  scalar,
  type SubgroupMatrixType,
  u32,
  type ValueType,
  vector,
  voidType,
} from './value-types.ts';

export interface SyncSite {
  readonly op: string;
  /** Index of the token that names the function. */
  readonly token: number;
  readonly isBarrier: boolean;
}

/** The call, the same object for all invocations that execute it, and its arguments. */
export type SyncRequest = readonly [site: SyncSite, ...args: unknown[]];

export const barrierFunctions: ReadonlySet<string> = new Set([
  'workgroupBarrier',
  'storageBarrier',
  'textureBarrier',
  'workgroupUniformLoad',
]);

const sameType = (type: ValueType): ValueType => type;
const predicate = (): ValueType => bool;

/** Type of the result, from that of the first argument. */
const subgroupFunctions: Readonly<Record<string, (type: ValueType) => ValueType>> = {
  ...Object.fromEntries(
    (
      'subgroupAdd subgroupMul subgroupMin subgroupMax subgroupAnd subgroupOr subgroupXor subgroupInclusiveAdd ' +
      'subgroupExclusiveAdd subgroupInclusiveMul subgroupExclusiveMul subgroupBroadcast subgroupBroadcastFirst ' +
      'subgroupShuffle subgroupShuffleXor subgroupShuffleUp subgroupShuffleDown quadBroadcast quadSwapX quadSwapY ' +
      'quadSwapDiagonal'
    )
      .split(' ')
      .map((name) => [name, sameType]),
  ),
  subgroupAll: predicate,
  subgroupAny: predicate,
  subgroupElect: predicate,
  subgroupBallot: () => vector(4, 'u32'),
};

const matrixFunctions: ReadonlySet<string> = new Set([
  'subgroupMatrixLoad',
  'subgroupMatrixStore',
  'subgroupMatrixMultiply',
  'subgroupMatrixMultiplyAccumulate',
]);

/** Names of the functions at which invocations meet. */
export const isSyncFunction = (name: string): boolean =>
  barrierFunctions.has(name) || matrixFunctions.has(name) || name in subgroupFunctions;

const request = (helpers: Helpers, op: string, token: number, args: readonly string[]): string => {
  const site: SyncSite = { op, token, isBarrier: barrierFunctions.has(op) };
  return `(yield [${[helpers.define(`site_${token}`, () => JSON.stringify(site)), ...args].join(', ')}])`;
};

export interface SyncCall {
  readonly name: string;
  readonly site: number;
  readonly args: readonly Value[];
  /** Template arguments: a type, and identifiers such as `row_major`. */
  readonly templateType: ValueType | undefined;
  readonly templateWords: readonly string[];
  readonly load: (type: ValueType, reference: Reference) => string;
}

export function syncCall(
  helpers: Helpers,
  { name, site, args, templateType, templateWords, load }: SyncCall,
): Value {
  const [first] = args;
  if (name === 'workgroupUniformLoad') {
    const pointer = first as Value;
    if (pointer.type.kind !== 'pointer') throw new EmulationError('workgroupUniformLoad without a pointer');
    const { to } = pointer.type;
    const barrier = request(helpers, name, site, []);
    const reference: Reference = {
      kind: 'memory',
      memory: 'p.memory',
      address: 'p.address',
      space: 'workgroup',
      site,
    };
    const helper = helpers.define(
      `uniform_load_${site}`,
      () => `function* (p, L) { ${barrier}; const v = ${load(to, reference)}; ${barrier}; return v; }`,
    );
    return valueOf(to.kind === 'atomic' ? scalar(to.element) : to, `(yield* ${helper}(${pointer.code}, L))`);
  }
  if (barrierFunctions.has(name)) return valueOf(voidType, request(helpers, name, site, []));
  if (matrixFunctions.has(name))
    return matrixCall(helpers, { name, site, args, templateType, templateWords });
  const result = subgroupFunctions[name];
  if (!result) throw new EmulationError(`the function ${name}`);
  const values = args.map((arg, i) =>
    i === 0 || elementOf(arg.type) !== 'int' ? materialize(helpers, arg) : convertTo(helpers, arg, u32),
  );
  const type = values[0]?.type ?? bool;
  const element = JSON.stringify(elementOf(type) ?? 'bool');
  return valueOf(result(type), request(helpers, name, site, [element, ...values.map(({ code }) => code)]));
}

function matrixCall(
  helpers: Helpers,
  { name, site, args, templateType, templateWords }: Omit<SyncCall, 'load'>,
): Value {
  const number = (index: number) => convertTo(helpers, args[index] as Value, u32).code;
  const pointed = (): ElementName => {
    const type = args[0]?.type;
    if (type?.kind !== 'pointer' || type.to.kind !== 'array' || type.to.element.kind !== 'scalar')
      throw new EmulationError(`${name} with a pointer to anything but an array of scalars`);
    return type.to.element.element;
  };
  const isColumnMajor = templateWords.includes('col_major');
  switch (name) {
    case 'subgroupMatrixLoad': {
      if (templateType?.kind !== 'subgroup_matrix') throw new EmulationError(`${name} of this type`);
      const { columns, rows } = templateType;
      return valueOf(
        templateType,
        request(helpers, name, site, [
          JSON.stringify(pointed()),
          (args[0] as Value).code,
          number(1),
          String(isColumnMajor),
          number(2),
          String(columns),
          String(rows),
        ]),
      );
    }
    case 'subgroupMatrixStore':
      return valueOf(
        voidType,
        request(helpers, name, site, [
          JSON.stringify(pointed()),
          (args[0] as Value).code,
          number(1),
          (args[2] as Value).code,
          String(isColumnMajor),
          number(3),
        ]),
      );
    default: {
      const [left, right, sum] = args as [Value, Value, Value?];
      const [a, b] = [left.type, right.type] as [SubgroupMatrixType, SubgroupMatrixType];
      const type: ValueType = sum?.type ?? {
        kind: 'subgroup_matrix',
        role: 'result',
        element: a.element,
        columns: b.columns,
        rows: a.rows,
      };
      const element = (type as SubgroupMatrixType).element;
      return valueOf(
        type,
        request(helpers, 'subgroupMatrixMultiplyAccumulate', site, [
          JSON.stringify(element),
          left.code,
          right.code,
          sum?.code ?? 'undefined',
        ]),
      );
    }
  }
}
