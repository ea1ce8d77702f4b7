import type {
  KyselyPlugin,
  OperationNode,
  PluginTransformQueryArgs,
  PluginTransformResultArgs,
  QueryResult,
  RootOperationNode,
  UnknownRow,
} from 'kysely';
import type { Tables } from './schema.ts';

/** A row that a transaction wrote. */
export interface WrittenRow {
  readonly table: keyof Tables;
  /** The value of the table's key, where the statement names one row by it. */
  readonly id: string | undefined;
}

/** The columns that name a row. */
const keyColumns = ['id', 'name', 'task_id', 'run_id', 'stream'];

/** Notes which rows the statements of a transaction write. It changes no statement. */
export class WrittenRows implements KyselyPlugin {
  #rows = new Map<string, WrittenRow>();
  /** The rows that a statement names, until it is known whether it wrote any. */
  readonly #named = new WeakMap<object, readonly WrittenRow[]>();

  /** The rows since the last call. */
  take(): readonly WrittenRow[] {
    const rows = [...this.#rows.values()];
    this.#rows = new Map();
    return rows;
  }

  transformQuery({ node, queryId }: PluginTransformQueryArgs): RootOperationNode {
    const table = tableOf(node);
    if (table !== undefined)
      this.#named.set(
        queryId,
        idsOf(node).map((id) => ({ table: table as keyof Tables, id })),
      );
    return node;
  }

  transformResult({ result, queryId }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    const { numAffectedRows, rows } = result;
    const isWritten = rows.length > 0 || numAffectedRows === undefined || numAffectedRows > 0n;
    if (isWritten)
      for (const row of this.#named.get(queryId) ?? []) this.#rows.set(`${row.table} ${row.id}`, row);
    return Promise.resolve(result);
  }
}

type Open = Readonly<Record<string, unknown>>;
const member = (node: unknown, ...path: string[]): unknown =>
  path.reduce<unknown>(
    (at, name) => (typeof at === 'object' && at !== null ? (at as Open)[name] : undefined),
    node,
  );

function tableOf(node: RootOperationNode): string | undefined {
  const target: Readonly<Record<string, unknown>> = {
    InsertQueryNode: member(node, 'into'),
    UpdateQueryNode: member(node, 'table'),
    DeleteQueryNode: (member(node, 'from', 'froms') as unknown[] | undefined)?.[0],
  };
  const name = member(target[node.kind], 'table', 'identifier', 'name');
  return typeof name === 'string' ? name : undefined;
}

/** The ids of the rows; `[undefined]` where the statement does not name them. */
function idsOf(node: RootOperationNode): (string | undefined)[] {
  const ids = node.kind === 'InsertQueryNode' ? insertedIds(node) : whereIds(member(node, 'where', 'where'));
  return ids.length > 0 ? ids : [undefined];
}

function insertedIds(node: RootOperationNode): string[] {
  const columns = ((member(node, 'columns') ?? []) as OperationNode[]).map((column) =>
    member(column, 'column', 'name'),
  );
  const at = keyColumns.map((name) => columns.indexOf(name)).find((index) => index >= 0);
  const rows = (member(node, 'values', 'values') ?? []) as OperationNode[];
  if (at === undefined || !Array.isArray(rows)) return [];
  return rows.flatMap((row) => {
    const value = ((member(row, 'values') ?? []) as unknown[])[at];
    const id = typeof value === 'string' ? value : member(value, 'value');
    return typeof id === 'string' ? [id] : [];
  });
}

/** Ids that a condition `key = ID`, alone or with others, restricts the rows to. */
function whereIds(condition: unknown): string[] {
  const kind = member(condition, 'kind');
  if (kind === 'ParensNode') return whereIds(member(condition, 'node'));
  if (kind === 'AndNode') {
    const left = whereIds(member(condition, 'left'));
    return left.length > 0 ? left : whereIds(member(condition, 'right'));
  }
  const column = member(condition, 'leftOperand', 'column', 'column', 'name');
  const id = member(condition, 'rightOperand', 'value');
  const isEqual = member(condition, 'operator', 'operator') === '=';
  return kind === 'BinaryOperationNode' &&
    isEqual &&
    keyColumns.includes(column as string) &&
    typeof id === 'string'
    ? [id]
    : [];
}
