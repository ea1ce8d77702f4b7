/** Finds the uses of module-scope declarations in a function, excluding parameters, locals and members. */
import { bodyOf, type FunctionInfo, type Reflection } from './reflect.ts';
import { readStatements, type Statement } from './statements.ts';
import type { Range } from './tokens.ts';

export interface Use {
  readonly name: string;
  /** Token index. */
  readonly token: number;
  /** Whether it is the root of an assignment target. */
  readonly assigned: boolean;
}

export function usesOf({ tokens }: Reflection, fn: FunctionInfo): Use[] {
  const uses: Use[] = [];
  const scopes: Set<string>[] = [new Set(fn.parameters.map(({ name }) => name))];

  const visit = (range: Range, target = false): void => {
    let root = target;
    for (let i = range.from; i < range.to; i++) {
      const token = tokens[i];
      if (token?.kind !== 'name') continue;
      const assigned = root;
      root = false;
      const before = tokens[i - 1]?.text;
      if (before === '.' || before === '@') continue;
      const { text } = token;
      if (!scopes.some((scope) => scope.has(text))) uses.push({ name: text, token: i, assigned });
    }
  };
  const within = (statements: readonly Statement[]): void => {
    scopes.push(new Set());
    statements.forEach(walk);
    scopes.pop();
  };
  const walk = (statement: Statement): void => {
    switch (statement.kind) {
      case 'block':
      case 'continuing':
      case 'loop':
        within(statement.body);
        break;
      case 'while':
        visit(statement.condition);
        within(statement.body);
        break;
      case 'if':
        for (const { condition, body } of statement.branches) {
          if (condition) visit(condition);
          within(body);
        }
        break;
      case 'for':
        scopes.push(new Set());
        statement.init.forEach(walk);
        if (statement.condition) visit(statement.condition);
        statement.update.forEach(walk);
        within(statement.body);
        scopes.pop();
        break;
      case 'switch':
        visit(statement.condition);
        for (const body of statement.cases) within(body);
        break;
      case 'declare':
        if (statement.type) visit(statement.type);
        if (statement.value) visit(statement.value);
        // The initializer refers to the outer declaration of the name.
        scopes.at(-1)?.add(tokens[statement.name]?.text ?? '');
        break;
      case 'assign':
        visit(statement.target, true);
        visit(statement.value);
        break;
      case 'break_if':
        visit(statement.condition);
        break;
      case 'return':
        visit(statement.value);
        break;
      case 'call':
        visit(statement.call);
        break;
      case 'break':
      case 'continue':
        break;
    }
  };
  readStatements(tokens, bodyOf(tokens, fn)).forEach(walk);
  return uses;
}

/** Names of module-scope declarations that a function uses, directly or through functions that it calls. */
export function reachableFrom(reflection: Reflection, name: string): ReadonlySet<string> {
  const functions = new Map(reflection.functions.map((fn) => [fn.name, fn]));
  const reached = new Set<string>([name]);
  const queue = [name];
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    const fn = functions.get(next);
    if (!fn) continue;
    for (const use of usesOf(reflection, fn)) {
      if (reached.has(use.name)) continue;
      reached.add(use.name);
      queue.push(use.name);
    }
  }
  return reached;
}
