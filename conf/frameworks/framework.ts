import type { GangPlace } from './gang.ts';

/**
 * A framework that the programs of a job use. Each framework is one folder beside this file, a name in names.ts, and a line in conf/frameworks.ts.
 * The client validates jobs with it, the executor asks it for variables, processes and services, and the ApplicationMaster runs its service.
 */
export interface Framework {
  /** Name of the framework in messages. */
  readonly title: string;
  /** What the job's programs can do or receive, for the description of `framework` in job.yaml. */
  readonly programs: string;
  /**
   * Whether programs train with `tony-ts/training`. `always`: the job's `strategy` decides how. `possibly`: tony-ts does not know. `never`:
   * the framework's own code connects the programs of different tasks, so that `strategy` does not apply.
   */
  readonly trainingLibrary: 'always' | 'possibly' | 'never';
  /** Environment variables that tony-ts sets for each task and that jobs cannot override. */
  readonly reserved: readonly string[];
  /** Whether a task may run several processes. */
  readonly runsProcesses?: true;
  /** Whether the command contains the framework's own launcher, which determines the number of processes and assigns their ranks. */
  readonly launchesRanks?: true;
  /**
   * Whether the framework's own server binds the task's port. The executor then keeps the port bound, without listening on it, while the
   * program runs. Otherwise, the program inherits the bound socket.
   */
  readonly opensServer?: true;
  /** Returns the mistakes in a job that only this framework knows. */
  validate?(roles: readonly FrameworkRole[]): FrameworkProblem[];
  /** Returns the environment variables with which the task's processes find those of other tasks. */
  variables?(task: FrameworkTask): FrameworkEnvironment | Promise<FrameworkEnvironment>;
  /**
   * Prepares the processes of a task that do not simply run the user's command.
   * @returns the bash command that the task runs instead, or null if it runs the user's command
   */
  processes?(task: FrameworkTask, tools: TaskTools): Promise<string | null>;
  readonly services?: FrameworkServices;
}

/** A role of the job, with the data that frameworks check. */
export interface FrameworkRole {
  readonly name: string;
  readonly ranked: boolean;
  /** Largest number of tasks. */
  readonly tasks: number;
  /** Number of processes that each task runs. */
  readonly processes: number;
  /** The words of the command, also those of a script in quotes. */
  readonly words: readonly string[];
}

export interface FrameworkProblem {
  readonly role: string;
  readonly about: 'name' | 'instances' | 'command';
  readonly message: string;
}

/** A task whose program is about to start. */
export interface FrameworkTask extends GangPlace {
  readonly host: string;
  /** The container's resources. */
  readonly resources: { readonly memoryMb: number; readonly vcores: number; readonly gpus: number };
  /** Port on 127.0.0.1 on which the framework's service listens, or 0 if the framework has no service. */
  readonly servicePort: number;
}

export interface FrameworkEnvironment {
  /** Default variables, which the job's own variables override. */
  readonly defaults: Readonly<Record<string, string>>;
  /** The variables for each of the task's processes. */
  readonly processes: readonly Readonly<Record<string, string>>[];
}

export interface TaskTools {
  /** The user's bash command. */
  readonly command: string;
  /** Absolute path of the container's working directory. */
  readonly folder: string;
  /** Absolute path of the folder with the frameworks' own programs. `tools/build.mjs` builds `NAME.mjs` from `NAME/programs/main.ts`. */
  readonly programs: string;
}

/** A service for the job's processes: a server in each task, which forwards requests to the ApplicationMaster. */
export interface FrameworkServices {
  /** Opens the server for one run of a task's program. @throws if no port can be bound */
  openInTask(options: TaskServiceOptions): Promise<TaskService>;
  openInMaster(): MasterService;
}

/** The methods of a logger that services use. The types of the published library depend on this file, and must not name the logger's. */
interface ServiceLog {
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface TaskServiceOptions {
  /** Forwards a request to the ApplicationMaster. Returns null if no ApplicationMaster can be reached. */
  readonly ask: (
    service: string,
    body: Uint8Array,
    signal: AbortSignal,
  ) => Promise<{ readonly head: Uint8Array; readonly body: Uint8Array } | null>;
  /** Shows the user a message. */
  readonly notice: (message: string) => void;
  readonly log: ServiceLog;
}

export interface TaskService {
  /** Port on 127.0.0.1. */
  readonly port: number;
  /** Sends this task's part of the service's state to a new ApplicationMaster attempt. */
  repeat(): Promise<void>;
  close(): void;
}

export interface MasterService {
  /**
   * Answers a request of a task. Returns null if the service does not know the request.
   * @throws TonyError
   */
  serve(request: MasterRequest): Promise<{ readonly answer: unknown; readonly body?: Uint8Array } | null>;
  close(): void;
}

export interface MasterRequest {
  readonly service: string;
  readonly generation: number;
  /** The request's JSON value. */
  readonly body: unknown;
  /** Aborted when the client no longer waits for the response. */
  readonly signal: AbortSignal;
}
