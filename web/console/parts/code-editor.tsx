import { lazy, Suspense } from 'react';
import { Loading } from './index.tsx';

export interface Diagnostic {
  /** Both counted from 1. */
  readonly line: number;
  readonly column: number;
  /** Exclusive; the word there where absent. */
  readonly endColumn?: number;
  readonly severity: 'error' | 'warning' | 'info';
  readonly message: string;
}

export interface CodeEditorProps {
  readonly label: string;
  readonly value: string;
  /** Absent: only for reading. */
  readonly onChange?: (value: string) => void;
  readonly language: 'wgsl' | 'toml' | 'json' | 'text';
  readonly diagnostics?: readonly Diagnostic[];
  /** Ctrl+Enter, Cmd+Enter. */
  readonly onRun?: () => void;
  /** In lines; it grows with its text up to that. */
  readonly lines?: number;
  /** Puts the cursor there whenever it changes. */
  readonly goTo?: { readonly line: number; readonly column: number } | undefined;
}

const Editor = lazy(() => import('./code-mirror.tsx'));

/** The editor is fetched when it is needed. */
export const CodeEditor = (props: CodeEditorProps) => (
  <Suspense fallback={<Loading what="the editor" />}>
    <Editor {...props} />
  </Suspense>
);
