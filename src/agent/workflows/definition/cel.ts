import { type ASTNode, Environment, type ParseError } from '@marcbachmann/cel-js';
import { compileLinearPattern, computePatternCost } from './linear-pattern.ts';

export interface CelFault {
  readonly message: string;
  /** Part of the expression that the fault points at. */
  readonly within?: string;
}
/** `steps.draft.output` as `['steps', 'draft', 'output']`. */
export type CelReference = readonly string[];

/** A compiled expression with its evaluation cost. */
export interface CompiledCel {
  readonly faults: readonly CelFault[];
  readonly references: readonly CelReference[];
  readonly nodes: number;
  /** Nesting depth of `all`, `exists`, `map` and so on; each iterates over a whole list. */
  readonly loops: number;
  /** Whether it splits texts into lists. */
  readonly splits: boolean;
  /** Cost of its patterns per character. */
  readonly patterns: number;
  readonly run: ((values: Readonly<Record<string, unknown>>) => unknown) | undefined;
}

const maxExpressionLength = 4000;
const maxPatternCost = 10_000;
const limits = {
  maxAstNodes: 500,
  maxDepth: 40,
  maxListElements: 200,
  maxMapEntries: 100,
  maxCallArguments: 8,
};
const macros = new Set(['all', 'exists', 'exists_one', 'map', 'filter']);
/** Roots whose members must be named, so that the read members are known. */
const namedRoots = new Set(['inputs', 'steps', 'run', 'host']);

/** A condition also reads the current state of the host; `where` of a gate reads the event instead. */
export type CelKind = 'condition' | 'where';
const roots = ['input', 'inputs', 'steps', 'run', 'workflow', 'now'];
export const availableRoots = (kind: CelKind): readonly string[] =>
  kind === 'where' ? [...roots, 'name', 'data'] : [...roots, 'host'];

/** Members whose types are known; of others only an evaluation can tell. */
const timestamp = 'google.protobuf.Timestamp';
const schemas: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  run: { id: 'string', started_at: timestamp },
  host: {
    pending: 'int',
    tasks_running: 'int',
    external_sessions: 'int',
    completions_served: 'int',
    model: 'string',
  },
};

const environments = { condition: createEnvironment('condition'), where: createEnvironment('where') };

function createEnvironment(kind: CelKind): Environment {
  const celEnvironment = new Environment({ homogeneousAggregateLiterals: false, limits });
  const types: Readonly<Record<string, string>> = {
    now: timestamp,
    input: 'string',
    workflow: 'string',
    name: 'string',
    data: 'dyn',
  };
  for (const root of availableRoots(kind)) {
    const schema = schemas[root];
    if (schema) celEnvironment.registerVariable({ name: root, schema });
    else celEnvironment.registerVariable(root, types[root] ?? 'map');
  }
  // JSON integers are CEL ints. Authors cannot know whether a number is an integer, so mixed arithmetic is allowed.
  const arithmetic: Readonly<Record<string, (a: number, b: number) => number>> = {
    '+': (a, b) => a + b,
    '-': (a, b) => a - b,
    '*': (a, b) => a * b,
    '/': (a, b) => a / b,
  };
  for (const [sign, operate] of Object.entries(arithmetic)) {
    const handler = (a: bigint | number, b: bigint | number) => operate(Number(a), Number(b));
    celEnvironment.registerOperator(`int ${sign} double: double`, handler);
    celEnvironment.registerOperator(`double ${sign} int: double`, handler);
  }
  return celEnvironment.registerFunction(
    'string.matchesLinear(string): bool',
    (text: string, pattern: string) => compileLinearPattern(pattern)(text),
  );
}

/** Compiles an expression. Reports faults instead of throwing. */
export function compileCel(expression: string, kind: CelKind): CompiledCel {
  const emptyResult = { references: [], nodes: 0, loops: 0, splits: false, patterns: 0, run: undefined };
  if (expression.length > maxExpressionLength)
    return {
      ...emptyResult,
      faults: [{ message: `an expression has at most ${maxExpressionLength} characters` }],
    };
  try {
    const parsed = environments[kind].parse(expression);
    const survey = new ExpressionSurvey(availableRoots(kind));
    survey.visit(parsed.ast, new Set(), 0);
    const { faults } = survey;
    const { type, error } = faults.length === 0 ? parsed.check() : {};
    // Unknown members are found by their references (check-references.ts), which name the known ones.
    if (error !== undefined && !error.message.startsWith('No such key'))
      faults.push(toCelFault(error, expression));
    else if (type !== undefined && type !== 'bool' && !type.startsWith('dyn'))
      faults.push({ message: `expected an expression that is true or false, this is of the type ${type}` });
    const { references, nodes, loops, splits, patterns } = survey;
    return {
      faults,
      references,
      nodes,
      loops,
      splits,
      patterns,
      run: faults.length === 0 ? parsed : undefined,
    };
  } catch (error) {
    return { ...emptyResult, faults: [toCelFault(error, expression)] };
  }
}

function toCelFault(error: unknown, expression: string): CelFault {
  if (error instanceof RangeError) return { message: 'the expression nests too deep' };
  if (!(error instanceof Error)) throw error;
  const { summary, range } = error as Partial<ParseError>;
  const at = range === undefined ? '' : ` at character ${range.start + 1}`;
  const within = range === undefined ? '' : expression.slice(range.start, range.end);
  return { message: `${summary ?? error.message}${at}`, ...(within === '' ? {} : { within }) };
}

/** Collects references and cost of an expression, and faults that are found before type checking. */
class ExpressionSurvey {
  readonly faults: CelFault[] = [];
  readonly references: string[][] = [];
  nodes = 0;
  loops = 0;
  splits = false;
  patterns = 0;
  readonly #roots: readonly string[];

  constructor(names: readonly string[]) {
    this.#roots = names;
  }

  visit(node: ASTNode, boundNames: ReadonlySet<string>, depth: number): void {
    this.nodes++;
    if (node.op === 'id' || node.op === '.' || node.op === '[]') this.#visitChain(node, boundNames, depth);
    else if (node.op === 'rcall') this.#visitCall(node, boundNames, depth);
    else
      for (const below of childNodes(node.op === 'call' ? node.args[1] : node.args))
        this.visit(below, boundNames, depth);
  }

  #visitCall(node: ASTNode & { op: 'rcall' }, boundNames: ReadonlySet<string>, depth: number): void {
    const [name, receiver, args] = node.args;
    const [first, ...rest] = args;
    if (receiver.op === 'id' && receiver.args === 'cel') {
      this.faults.push({ message: `'cel.${name}' is not available here`, within: `cel.${name}` });
      return;
    }
    this.visit(receiver, boundNames, depth);
    if (name === 'split') this.splits = true;
    if (name === 'matches') this.#replaceMatches(node, first);
    if (!macros.has(name) || first?.op !== 'id') {
      for (const one of args) this.visit(one, boundNames, depth);
      return;
    }
    this.loops = Math.max(this.loops, depth + 1);
    for (const one of rest) this.visit(one, new Set([...boundNames, first.args]), depth + 1);
  }

  /** Replaces the library's backtracking `matches` with one that runs in linear time. */
  #replaceMatches(node: ASTNode & { op: 'rcall' }, pattern: ASTNode | undefined): void {
    (node.args as unknown[])[0] = 'matchesLinear';
    if (pattern?.op !== 'value' || typeof pattern.args !== 'string') {
      this.faults.push({ message: 'the pattern of matches() must be a literal', within: 'matches' });
      return;
    }
    this.patterns += computePatternCost(pattern.args);
    try {
      if (this.patterns > maxPatternCost) throw new Error('it repeats too much');
      compileLinearPattern(pattern.args);
    } catch (error) {
      this.faults.push({
        message: `the pattern of matches(): ${(error as Error).message}`,
        within: 'matches',
      });
    }
  }

  #visitChain(node: ASTNode, boundNames: ReadonlySet<string>, depth: number): void {
    const names: (string | undefined)[] = [];
    let current = node;
    for (; current.op === '.' || current.op === '[]'; current = current.args[0]) {
      if (current !== node) this.nodes++;
      if (current.op === '.') names.unshift(current.args[1]);
      else {
        const [, index] = current.args;
        const literal = index.op === 'value' ? index.args : undefined;
        names.unshift(
          typeof literal === 'string' || typeof literal === 'bigint' ? String(literal) : undefined,
        );
        if (names[0] === undefined) this.visit(index, boundNames, depth);
      }
    }
    if (current.op !== 'id') {
      this.visit(current, boundNames, depth);
      return;
    }
    const root = current.args;
    if (boundNames.has(root)) return;
    if (!this.#roots.includes(root))
      this.faults.push({
        message: `there is no '${root}' here: use ${this.#roots.join(', ')}`,
        within: root,
      });
    else if (namedRoots.has(root) && names[0] === undefined)
      this.faults.push({ message: `name a member of '${root}', as in ${root}.name`, within: root });
    else this.references.push([root, ...literalPrefix(names)]);
  }
}

/** Names before the first computed one. */
const literalPrefix = (names: readonly (string | undefined)[]) => {
  const end = names.indexOf(undefined);
  return names.slice(0, end < 0 ? names.length : end) as string[];
};

function childNodes(args: unknown): ASTNode[] {
  if (Array.isArray(args)) return args.flatMap(childNodes);
  return args instanceof Object && 'op' in args ? [args as ASTNode] : [];
}
