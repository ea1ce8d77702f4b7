/** Finds the uses of module-scope declarations in a function, excluding parameters, locals and members. */
import { bodyOf, type FunctionInfo, type Reflection } from './reflect.ts';
import { readStatements, type Statement } from './statements.ts';
import type { Range } from './tokens.ts';

export interface NameUse {
  readonly name: string;
  /** Token index. */
  readonly token: number;
  /** Whether it is the root of an assignment target. */
  readonly isAssigned: boolean;
}

export function findUses({ tokens }: Reflection, fn: FunctionInfo): NameUse[] {
  const uses: NameUse[] = [];
  const scopes: Set<string>[] = [new Set(fn.parameters.map(({ name }) => name))];

  const visitRange = (range: Range, isTarget = false): void => {
    let isRoot = isTarget;
    for (let i = range.from; i < range.to; i++) {
      const token = tokens[i];
      if (token?.kind !== 'name') continue;
      const isAssigned = isRoot;
      isRoot = false;
      const before = tokens[i - 1]?.text;
      if (before === '.' || before === '@') continue;
      const { text } = token;
      if (!scopes.some((scope) => scope.has(text))) uses.push({ name: text, token: i, isAssigned });
    }
  };
  const visitScope = (statements: readonly Statement[]): void => {
    scopes.push(new Set());
    statements.forEach(visitStatement);
    scopes.pop();
  };
  const visitStatement = (statement: Statement): void => {
    switch (statement.kind) {
      case 'block':
      case 'continuing':
      case 'loop':
        visitScope(statement.body);
        break;
      case 'while':
        visitRange(statement.condition);
        visitScope(statement.body);
        break;
      case 'if':
        for (const { condition, body } of statement.branches) {
          if (condition) visitRange(condition);
          visitScope(body);
        }
        break;
      case 'for':
        scopes.push(new Set());
        statement.init.forEach(visitStatement);
        if (statement.condition) visitRange(statement.condition);
        statement.update.forEach(visitStatement);
        visitScope(statement.body);
        scopes.pop();
        break;
      case 'switch':
        visitRange(statement.condition);
        for (const body of statement.cases) visitScope(body);
        break;
      case 'declare':
        if (statement.type) visitRange(statement.type);
        if (statement.value) visitRange(statement.value);
        // The initializer refers to the outer declaration of the name.
        scopes.at(-1)?.add(tokens[statement.name]?.text ?? '');
        break;
      case 'assign':
        visitRange(statement.target, true);
        visitRange(statement.value);
        break;
      case 'break_if':
        visitRange(statement.condition);
        break;
      case 'return':
        visitRange(statement.value);
        break;
      case 'call':
        visitRange(statement.call);
        break;
      case 'break':
      case 'continue':
        break;
    }
  };
  readStatements(tokens, bodyOf(tokens, fn)).forEach(visitStatement);
  return uses;
}

/** Names of module-scope declarations that a function uses, directly or through functions that it calls. */
export function findReachableNames(reflection: Reflection, name: string): ReadonlySet<string> {
  const functions = new Map(reflection.functions.map((fn) => [fn.name, fn]));
  const reached = new Set<string>([name]);
  const queue = [name];
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    const fn = functions.get(next);
    if (!fn) continue;
    for (const use of findUses(reflection, fn)) {
      if (reached.has(use.name)) continue;
      reached.add(use.name);
      queue.push(use.name);
    }
  }
  return reached;
}
