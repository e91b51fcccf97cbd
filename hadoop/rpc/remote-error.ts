import { TonyError } from '../../platform/errors.ts';

export interface RemoteFailure {
  /** The failed action, e.g. "allocate at rm1:8030". */
  readonly action: string;
  readonly exceptionClassName: string;
  /** The unmodified error text: the message, followed by Java's stack trace. */
  readonly errorMessage: string;
  /** True if the error has ended the connection. */
  readonly fatal: boolean;
}

/** An exception that a Hadoop daemon returned. */
export class RemoteError extends TonyError {
  /** The qualified class name, e.g. org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException. */
  readonly exceptionClassName: string;
  readonly fatal: boolean;
  /** The message of the exception, without the stack trace. */
  readonly remoteMessage: string;

  constructor(failure: RemoteFailure) {
    const remoteMessage = withoutStack(failure.errorMessage);
    const name = simpleName(failure.exceptionClassName);
    super('RPC_FAILED', `${failure.action} failed: ${remoteMessage === '' ? name : `${remoteMessage} (${name})`}`);
    this.exceptionClassName = failure.exceptionClassName;
    this.fatal = failure.fatal;
    this.remoteMessage = remoteMessage;
  }

  /** Returns true for an exception with one of these simple class names: `InvalidToken` for `...SecretManager$InvalidToken`. */
  is(...names: readonly string[]): boolean {
    return names.includes(simpleName(this.exceptionClassName));
  }
}

function simpleName(className: string): string {
  return className.slice(Math.max(className.lastIndexOf('.'), className.lastIndexOf('$')) + 1) || 'unknown exception';
}

function withoutStack(text: string): string {
  return (
    text
      .replace(/^[\s\r\n]+/, '')
      .split(/\r?\n/, 1)[0]
      ?.trim() ?? ''
  );
}
