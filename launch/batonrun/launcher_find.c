/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher_find: which launcher starts the ranks. See launcher.h. */
#include <stdlib.h>
#include <string.h>

#include "batonrun/launcher.h"
#include "batonrun/program.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

const struct option_choice launcher_choices[] = {
    {"openmpi", LAUNCHER_OPENMPI}, {"prrte", LAUNCHER_PRRTE}, {"hydra", LAUNCHER_HYDRA}, {"srun", LAUNCHER_SRUN}, {0}};

/* The usual names of a kind's program. LAUNCHER_FIND: of any kind's. */
static const char *const usual_names[LAUNCHER_KINDS][4] = {
    [LAUNCHER_FIND] = {"mpirun", "mpiexec.hydra", "prterun"},
    [LAUNCHER_OPENMPI] = {"mpirun", "mpirun.openmpi", "orterun"},
    [LAUNCHER_PRRTE] = {"mpirun", "mpirun.openmpi", "prterun"},
    [LAUNCHER_HYDRA] = {"mpiexec.hydra", "mpirun", "mpirun.mpich"},
    [LAUNCHER_SRUN] = {"srun"},
};

/* What to install where there is none of them. */
static const char *const packages[LAUNCHER_KINDS] = {
    [LAUNCHER_FIND] = "install Open MPI (Debian: openmpi-bin)",
    [LAUNCHER_OPENMPI] = "install Open MPI (Debian: openmpi-bin)",
    [LAUNCHER_PRRTE] = "install Open MPI (Debian: openmpi-bin)",
    [LAUNCHER_HYDRA] = "install MPICH (Debian: mpich)",
    [LAUNCHER_SRUN] = "install Slurm (Debian: slurm-client)",
};

/* ---- what a program and a library are ---------------------------------------------------------------------------- */

enum launcher_library launcher_library_of(const char *text)
{
    static const char openmpi[] = "Open MPI v";
    if (strncmp(text, openmpi, strlen(openmpi)) == 0)
        return strtoul(text + strlen(openmpi), NULL, 10) < 5 ? LIBRARY_OPENMPI_4 : LIBRARY_OPENMPI_5;
    return strncmp(text, "MPICH", strlen("MPICH")) == 0 ? LIBRARY_MPICH : LIBRARY_ANY;
}

static enum launcher_kind kind_for(enum launcher_library library)
{
    static const enum launcher_kind fitting[] = {[LIBRARY_ANY] = LAUNCHER_FIND,
                                                 [LIBRARY_OPENMPI_4] = LAUNCHER_OPENMPI,
                                                 [LIBRARY_OPENMPI_5] = LAUNCHER_PRRTE,
                                                 [LIBRARY_MPICH] = LAUNCHER_HYDRA};
    return fitting[library];
}

/* 402 for "4.2.1"; 0: that is no version. */
static unsigned read_version(const char *text)
{
    char *end;
    unsigned long major = strtoul(text, &end, 10), minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return major < 10000 && minor < 100 ? (unsigned)(major * 100 + minor) : 0;
}

/* By what --version prints, where warnings may come first. LAUNCHER_FIND: not known. */
static enum launcher_kind read_kind(const char *text, struct launcher *l)
{
    static const struct {
        const char *mark;
        enum launcher_kind kind;
    } marks[] = {{"(Open MPI) ", LAUNCHER_OPENMPI},
                 {"(OpenRTE) ", LAUNCHER_OPENMPI},
                 {"(PRRTE) ", LAUNCHER_PRRTE},
                 {"HYDRA build details", LAUNCHER_HYDRA}};
    for (unsigned i = 0; i < LENGTH(marks); i++) {
        const char *at = strstr(text, marks[i].mark);
        if (at == NULL)
            continue;
        l->kind = marks[i].kind;
        const char *number = l->kind == LAUNCHER_HYDRA ? strstr(at, "Version:") : at + strlen(marks[i].mark);
        if (number != NULL)
            l->version = read_version(number + (l->kind == LAUNCHER_HYDRA ? strlen("Version:") : 0));
        l->is_prterun = l->kind == LAUNCHER_PRRTE;
        if (l->kind == LAUNCHER_OPENMPI && l->version >= 500)
            l->kind = LAUNCHER_PRRTE;
        return l->kind;
    }
    return LAUNCHER_FIND;
}

/* Slurm's srun is known by its name: without a configuration it does not tell its version. */
static bool is_srun(const char *program)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash != NULL ? slash + 1 : program, "srun") == 0;
}

/* What the program of this name is. False: there is none. */
static bool look_at(const char *program, enum launcher_library library, struct launcher *l)
{
    char text[1024];
    *l = (struct launcher){.library = library};
    if (strlen(program) >= sizeof l->program || program_obstacle(program) != 0)
        return false;
    strcpy(l->program, program);
    if (is_srun(program))
        l->kind = LAUNCHER_SRUN;
    else if (program_version(program, text, sizeof text))
        l->kind = read_kind(text, l);
    return true;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* "Open MPI 4.1", "Hydra 4.2"; a program of no known kind says so. */
static const char *describe(const struct launcher *l, char text[64])
{
    static const char *const titles[LAUNCHER_KINDS] = {[LAUNCHER_OPENMPI] = "Open MPI",
                                                       [LAUNCHER_PRRTE] = "Open MPI",
                                                       [LAUNCHER_HYDRA] = "MPICH's Hydra",
                                                       [LAUNCHER_SRUN] = "Slurm's srun"};
    if (l->kind == LAUNCHER_FIND)
        return "of a kind that batonrun does not know";
    bool is_prrte = l->kind == LAUNCHER_PRRTE && (l->is_prterun || l->version == 0);
    snprintf(text, 64, "%s", is_prrte ? "PRRTE" : titles[l->kind]);
    if (l->version > 0)
        snprintf(text + strlen(text), 64 - strlen(text), " %u.%u", l->version / 100, l->version % 100);
    return text;
}

static void say_differ(struct why *why, const struct launcher *l, const char *library, const char *remedy)
{
    char text[64];
    why_set(why, "launcher and library differ: %.100s is %s, and Baton was built with %.60s%s", l->program,
            describe(l, text), library, remedy);
}

/* There is no program of any of the names, or `other` is the first of them, which is not of the wanted kind. */
static int say_none(const struct launcher_wish *wish, enum launcher_kind wanted, const struct launcher *other,
                    struct why *why)
{
    char text[64];
    if (other->program[0] == '\0') {
        why_set(why, "there is no %.100s: %s, or name the launcher by --mpirun PATH",
                wish->program != NULL ? wish->program : usual_names[wanted][0], packages[wanted]);
        return LAUNCHER_STATUS_MISSING;
    }
    if (wish->kind != LAUNCHER_FIND)
        why_set(why, "%.100s is %s, not %s: name the program by --mpirun PATH", other->program, describe(other, text),
                option_name(launcher_choices, wish->kind, "known"));
    else if (other->kind == LAUNCHER_FIND)
        why_set(why, "%.100s is %s: name its kind by --launcher", other->program, describe(other, text));
    else
        say_differ(why, other, wish->library,
                   ": name that library's launcher by --mpirun PATH, or insist on this one by --launcher NAME");
    return LAUNCHER_STATUS_WRONG;
}

/*
 * Where the user named the kind, a program that does not say what it is is taken. Where nothing will be run, the
 * program need not be there, and a kind that the user named may be another machine's.
 */
static bool take_word_for_it(struct launcher *l, const struct launcher_wish *wish, enum launcher_kind wanted,
                             const struct launcher *other)
{
    bool is_there = other->program[0] != '\0', is_named = wish->kind != LAUNCHER_FIND;
    bool is_unknown = is_there && other->kind == LAUNCHER_FIND && is_named;
    if (!is_unknown && !(wish->dry && (is_named || !is_there)))
        return false;
    *l = (struct launcher){.library = other->library, .kind = wanted != LAUNCHER_FIND ? wanted : LAUNCHER_OPENMPI};
    const char *usual = is_unknown ? other->program : usual_names[l->kind][0];
    snprintf(l->program, sizeof l->program, "%s", wish->program != NULL ? wish->program : usual);
    return true;
}

/* The first program of the wanted kind. False: there is none; *other is the first of another kind, or has no name. */
static bool take_fitting(struct launcher *l, const char *const *names, unsigned num, enum launcher_kind wanted,
                         enum launcher_library library, struct launcher *other)
{
    *other = (struct launcher){.library = library};
    for (unsigned i = 0; i < num && names[i] != NULL; i++) {
        if (!look_at(names[i], library, l))
            continue;
        if (l->kind != LAUNCHER_FIND && (wanted == LAUNCHER_FIND || l->kind == wanted || l->kind == LAUNCHER_SRUN))
            return true;
        if (other->program[0] == '\0')
            *other = *l;
    }
    return false;
}

int launcher_find(struct launcher *l, const struct launcher_wish *wish, struct why *why)
{
    enum launcher_library library = launcher_library_of(wish->library != NULL ? wish->library : "");
    enum launcher_kind fitting = kind_for(library), wanted = wish->kind != LAUNCHER_FIND ? wish->kind
                                                             : wish->spans_components    ? LAUNCHER_SRUN
                                                                                         : fitting;
    const char *const *names = wish->program != NULL ? &wish->program : usual_names[wanted];
    unsigned num = wish->program != NULL ? 1 : LENGTH(usual_names[wanted]);
    struct launcher other;
    why->text[0] = '\0';
    bool found = take_fitting(l, names, num, wanted, library, &other);
    if (!found && wish->kind == LAUNCHER_FIND && wish->program == NULL && wish->in_slurm_job)
        found = look_at("srun", library, l);
    if (!found && !take_word_for_it(l, wish, wanted, &other))
        return say_none(wish, wanted, &other, why);
    if (l->kind != LAUNCHER_SRUN && fitting != LAUNCHER_FIND && l->kind != fitting)
        say_differ(why, l, wish->library, ": each rank may come up as a world of its own");
    return 0;
}
