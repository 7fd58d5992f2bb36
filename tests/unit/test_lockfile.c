/* SPDX-License-Identifier: BSD-3-Clause */
/* lockfile: who holds a file, who may remove it, and that no holder loses its name while others sweep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lockfile.h"
#include "with_descriptors.h"

static char folder[] = "/tmp/baton-held-XXXXXX";
static char path[64];

static bool has_no_locks; /* as file systems on other hosts may have none */

int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (!has_no_locks || command != F_OFD_SETLK)
        return (int)syscall(SYS_fcntl, fd, command, argument);
    errno = ENOLCK;
    return -1;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL && snprintf(path, sizeof path, "%s/file", folder) > 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static bool is_held(void)
{
    int fd = open(path, O_RDONLY);
    bool held = fd >= 0 && lockfile_is(fd);
    if (fd >= 0)
        close(fd);
    return held;
}

static void test_a_holder(void **state)
{
    (void)state;
    struct stat status;
    int fd = lockfile_make(path);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_true(is_held());
    assert_int_equal(lockfile_make(path), -1); /* in the same process too */
    assert_int_equal(errno, EEXIST);
    assert_false(lockfile_remove(path));
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    assert_false(is_held());
    fd = lockfile_make(path); /* in place of one that nobody holds */
    assert_true(fd >= 0);
    assert_true(is_held());
    close(fd);
    assert_true(lockfile_remove(path));
    assert_false(lockfile_remove(path));
    assert_int_equal(access(path, F_OK), -1);
}

/* Descriptor 0 is as good as others. */
static void test_the_lowest_descriptor(void **state)
{
    (void)state;
    const int input = descriptor_free_lowest();
    for (int i = 0; i < 2; i++) { /* the second one removes the first one's file */
        int fd = lockfile_make(path);
        assert_int_equal(fd, STDIN_FILENO);
        assert_true(is_held());
        close(fd);
    }
    assert_true(lockfile_remove(path));
    descriptor_back(input);
}

/* What is no file of ours is neither taken nor removed. */
static void test_others(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(lockfile_make(path), -1);
    assert_false(lockfile_remove(path));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(lockfile_make(path), -1);
    assert_false(lockfile_remove(path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(lockfile_make(path), -1);
    assert_false(lockfile_remove(path));
    assert_int_equal(unlink(path), 0);
    if (geteuid() != 0)
        return;
    close(lockfile_make(path));
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(lockfile_make(path), -1);
    assert_false(lockfile_remove(path));
    assert_int_equal(unlink(path), 0);
}

/* A process that is killed holds nothing, although what it forked before lives on. */
static void test_a_forked_process(void **state)
{
    (void)state;
    int ends[2], raw;
    char byte;
    if (TEST_EMULATED)
        skip(); /* an emulator knows no MADV_DONTFORK */
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = lockfile_make(path);
        char *at = ftruncate(fd, 4096) == 0 ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        if (at == MAP_FAILED || madvise(at, 4096, MADV_DONTFORK) != 0)
            _exit(1);
        close(fd);
        if (!is_held())
            _exit(2);
        if (fork() == 0) {
            close(ends[1]); /* else it waits for itself where the test has failed */
            (void)!read(ends[0], &byte, 1);
            _exit(0);
        }
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &raw, 0), pid);
    assert_true(WIFSIGNALED(raw));
    assert_false(is_held());
    assert_int_equal(write(ends[1], "", 1), 1);
    close(ends[0]);
    close(ends[1]);
    assert_true(lockfile_remove(path));
}

/* A file that somebody is removing is not held. */
static void test_a_remover(void **state)
{
    (void)state;
    close(lockfile_make(path));
    int fd = open(path, O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    assert_false(is_held());
    assert_false(lockfile_remove(path));
    assert_int_equal(lockfile_make(path), -1); /* it was stopped: who makes one does not wait for ever */
    close(fd);
    assert_true(lockfile_remove(path));
}

/* Where files cannot be locked, none is left behind. */
static void test_no_locks(void **state)
{
    (void)state;
    const int before = descriptors_open();
    has_no_locks = true;
    assert_int_equal(lockfile_make(path), -1);
    has_no_locks = false;
    assert_int_equal(errno, ENOLCK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(descriptors_open(), before);
}

/* Who needs no lock gets the file there too, and takes the name from an earlier one of his. */
static void test_no_locks_needed(void **state)
{
    (void)state;
    has_no_locks = true;
    for (int i = 0; i < 2; i++) {
        int fd = lockfile_make_anyway(path);
        assert_true(fd >= 0);
        assert_false(is_held());
        lockfile_drop(fd);
    }
    assert_int_equal(unlink(path) + symlink("/dev/null", path), 0);
    assert_int_equal(lockfile_make_anyway(path), -1);
    assert_int_equal(errno, EEXIST);
    has_no_locks = false;
    assert_int_equal(unlink(path), 0);
}

/* A forked process that has the file open does not hold it. */
static void test_a_file_that_is_dropped(void **state)
{
    (void)state;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    int fd = lockfile_make(path);
    assert_true(fd >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_true(is_held());
    lockfile_drop(fd);
    assert_false(is_held());
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(lockfile_remove(path));
}

/* What a message says of a name that is not to be had. */
static void test_why(void **state)
{
    (void)state;
    assert_non_null(strstr(lockfile_why(path), "No such file"));
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_non_null(strstr(lockfile_why(path), "link"));
    assert_int_equal(unlink(path) + mkfifo(path, 0600), 0);
    assert_non_null(strstr(lockfile_why(path), "no regular file"));
    assert_int_equal(unlink(path), 0);
    int fd = lockfile_make(path);
    assert_non_null(strstr(lockfile_why(path), "another context"));
    lockfile_drop(fd);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_non_null(strstr(lockfile_why(path), "another user's"));
    }
    assert_int_equal(unlink(path), 0);
}

/* Processes make one file each while all remove what they find. Each one that has made its own finds it there. */
static void test_makers_among_removers(void **state)
{
    (void)state;
    enum { PROCESSES = 6, ROUNDS = 150 };
    struct shared {
        atomic_int here, gone;
    } *s = mmap(NULL, sizeof *s * ROUNDS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int raw, bad = 0;
    assert_true(s != MAP_FAILED);
    fflush(stdout); /* not what the parent has yet to print */
    for (unsigned i = 0; i < PROCESSES; i++) {
        if (fork() != 0)
            continue;
        const int open_before = descriptors_open();
        for (unsigned round = 0; round < ROUNDS; round++) { /* to the end: others wait for this one in each */
            char own[80], other[80];
            atomic_fetch_add(&s[round].here, 1);
            for (unsigned n = 0; n < 1000000 && atomic_load(&s[round].here) < PROCESSES; n++)
                usleep(1);
            for (unsigned k = 0; k < PROCESSES; k++) {
                snprintf(other, sizeof other, "%s.%u", path, k);
                lockfile_remove(other);
            }
            snprintf(own, sizeof own, "%s.%u", path, i);
            int fd = lockfile_make(own);
            atomic_fetch_add(&s[round].gone, 1);
            for (unsigned n = 0; n < 1000000 && atomic_load(&s[round].gone) < PROCESSES; n++)
                usleep(1);
            bad += fd < 0 || access(own, F_OK) != 0;
            if (fd >= 0)
                close(fd);
        }
        _exit(bad != 0 || descriptors_open() != open_before);
    }
    while (wait(&raw) > 0)
        bad += raw != 0;
    assert_int_equal(bad, 0);
    for (unsigned i = 0; i < PROCESSES; i++) {
        char own[80];
        snprintf(own, sizeof own, "%s.%u", path, i);
        assert_true(lockfile_remove(own));
    }
    munmap(s, sizeof *s * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_holder),
        cmocka_unit_test(test_the_lowest_descriptor),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_a_remover),
        cmocka_unit_test(test_a_forked_process),
        cmocka_unit_test(test_no_locks),
        cmocka_unit_test(test_no_locks_needed),
        cmocka_unit_test(test_a_file_that_is_dropped),
        cmocka_unit_test(test_why),
        cmocka_unit_test(test_makers_among_removers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
