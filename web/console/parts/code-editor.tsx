import { lazy, Suspense } from 'react';
import type { Diagnostic } from './diagnostics.ts';
import { Loading } from './index.tsx';

export type { Diagnostic };

export interface CodeEditorProps {
  readonly label: string;
  readonly value: string;
  /** Absent: only for reading. */
  readonly onChange?: (value: string) => void;
  readonly language: 'wgsl' | 'toml' | 'json' | 'text';
  /** Of `value` as it is now; they move along with what is typed before them. All are listed below the text, too. */
  readonly diagnostics?: readonly Diagnostic[];
  /** Ctrl+Enter, Cmd+Enter. */
  readonly onRun?: () => void;
  /** In lines; it grows with its text up to that. 24 where absent. */
  readonly lines?: number;
  /** Puts the cursor there, and the focus. A new object each time: the same place may be gone to twice. */
  readonly goTo?: { readonly line: number; readonly column: number } | undefined;
}

const Editor = lazy(() => import('./code-mirror.tsx'));

/** The editor is fetched when it is needed. */
export const CodeEditor = (props: CodeEditorProps) => (
  <Suspense fallback={<Loading what="the editor" />}>
    <Editor {...props} />
  </Suspense>
);
